"""Write the models of XGBoost and LightGBM in `tests/golden/onnx`.

    pip install lightgbm xgboost onnxmltools
    python -m tests.support.onnx_golden

The packages are large, and the tests need only the files.
"""

from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parents[1] / "golden" / "onnx"
FEATURES = "a,b,c,d"


def main() -> None:
    """Train small models on numbers of which some are missing, and export them."""
    import lightgbm
    import xgboost
    from onnxmltools import convert_lightgbm, convert_xgboost
    from onnxmltools.convert.common.data_types import FloatTensorType

    random = np.random.default_rng(0)
    x = random.normal(size=(400, 4)).astype(np.float32)
    number = 2 * x[:, 0] + x[:, 2]
    two = (x[:, 0] + x[:, 1] > 0).astype(int)
    three = two + (x[:, 2] > 0.5)
    x[::13, 1] = np.nan
    of = {"initial_types": [("input", FloatTensorType([None, 4]))]}
    for name, targets in (("two", two), ("three", three), ("number", number)):
        light = lightgbm.LGBMRegressor if name == "number" else lightgbm.LGBMClassifier
        extreme = xgboost.XGBRegressor if name == "number" else xgboost.XGBClassifier
        models = {
            "lightgbm": convert_lightgbm(light(n_estimators=6, num_leaves=8, verbose=-1).fit(x, targets), **of),
            "xgboost": convert_xgboost(extreme(n_estimators=6, max_depth=3).fit(x, targets), **of),
        }
        for package, model in models.items():
            (FOLDER / f"{package}_{name}.onnx").write_bytes(model.SerializeToString())


if __name__ == "__main__":
    main()
