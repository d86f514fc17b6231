"""Write the models of XGBoost and LightGBM in `tests/golden/onnx`, and what shap says of them in `tests/golden/shap`.

    pip install lightgbm xgboost onnxmltools shap
    python -m tests.support.onnx_golden

The packages are large, and the tests need only the files. `shap/values.json` has, for each of these models and for
forests of scikit-learn, background rows, rows, and the values of `shap.TreeExplainer` with interventional perturbation:
for each row and feature, a number for each output.
"""

import json
from functools import partial
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parents[1] / "golden" / "onnx"
SHAP = FOLDER.parent / "shap"
FEATURES = "a,b,c,d"


def main() -> None:
    """Train small models on numbers of which some are missing, and export them."""
    import lightgbm
    import shap
    import xgboost
    from onnxmltools import convert_lightgbm, convert_xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType
    from skl2onnx import to_onnx
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    random = np.random.default_rng(0)
    x = random.normal(size=(400, 4)).astype(np.float32)
    number = 2 * x[:, 0] + x[:, 2]
    two = (x[:, 0] + x[:, 1] > 0).astype(int)
    three = two + (x[:, 2] > 0.5)
    x[::13, 1] = np.nan
    of = {"initial_types": [("input", FloatTensorType([None, 4]))]}
    whole = x[~np.isnan(x).any(axis=1)]
    background, rows = whole[:20], whole[100:112]
    said = {}
    for name, targets in (("two", two), ("three", three), ("number", number)):
        light = lightgbm.LGBMRegressor if name == "number" else lightgbm.LGBMClassifier
        extreme = xgboost.XGBRegressor if name == "number" else xgboost.XGBClassifier
        forest = RandomForestRegressor if name == "number" else RandomForestClassifier
        for package, model, convert in (
            ("lightgbm", light(n_estimators=6, num_leaves=8, verbose=-1), partial(convert_lightgbm, **of)),
            ("xgboost", extreme(n_estimators=6, max_depth=3), partial(convert_xgboost, **of)),
            ("sklearn", forest(6, max_depth=4, random_state=1), partial(to_onnx, X=x[:1])),
        ):
            model.fit(x, targets)
            folder = SHAP if package == "sklearn" else FOLDER
            (folder / f"{package}_{name}.onnx").write_bytes(convert(model).SerializeToString())
            explainer = shap.TreeExplainer(model, data=background, feature_perturbation="interventional")
            values = np.asarray(explainer.shap_values(rows, check_additivity=False), np.float64)
            said[f"{package}_{name}"] = {
                "background": background.tolist(),
                "rows": rows.tolist(),
                "values": values.reshape(*rows.shape, -1).tolist(),
            }
    (SHAP / "values.json").write_text(json.dumps(said) + "\n")


if __name__ == "__main__":
    main()
