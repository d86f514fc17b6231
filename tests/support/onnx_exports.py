"""Small models as scikit-learn, XGBoost and LightGBM export them, and rows for them."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    AdaBoostClassifier,
    ExtraTreesClassifier,
    GradientBoostingClassifier,
    GradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import (
    MaxAbsScaler,
    MinMaxScaler,
    OneHotEncoder,
    OrdinalEncoder,
    RobustScaler,
    StandardScaler,
)
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from glasstream.events.features import Kind
from glasstream.models.onnx.file import OnnxFile, parse
from glasstream.models.onnx.translate import known_texts
from tests.support.onnx_golden import FEATURES, FOLDER

SEED = 3
COUNT = 240
_random = np.random.default_rng(SEED)
X = _random.normal(size=(COUNT, 4)).astype(np.float32)
TWO = (X[:, 0] + X[:, 1] > 0).astype(int)
THREE = TWO + (X[:, 2] > 0.5)
NUMBER = 2 * X[:, 0] + X[:, 2]
TEXT = np.array(["no", "yes"])[TWO]
FRAME = pd.DataFrame(X, columns=list("abcd")).assign(
    town=np.array(["here", "there", "far"])[_random.integers(0, 3, COUNT)],
    visits=_random.integers(0, 9, COUNT),
)


@dataclass(frozen=True)
class Export:
    """A model to export.

    Attributes
    ----------
    make
        Function that trains it.
    bits
        Whether its translation equals onnxruntime to the last bit; None if it has none.
    frame
        Whether it takes columns by name instead of one table.
    """

    make: Callable[[], Any]
    bits: bool | None = True
    frame: bool = False


def encoded(inner: Any, *, ordinal: bool = False) -> Any:
    """Return a model behind the usual preparation of a data frame."""
    one = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=-1) if ordinal else OneHotEncoder(
        handle_unknown="ignore"
    )  # fmt: skip
    numbers = ["a", "b", "c", "d", "visits"]
    prepared = (make_pipeline(SimpleImputer(), StandardScaler()), numbers)
    return make_pipeline(make_column_transformer(prepared, (one, ["town"])), inner)


def _forest(**more: Any) -> RandomForestClassifier:
    return RandomForestClassifier(12, max_depth=5, random_state=1, **more)


EXPORTS: Mapping[str, Export] = {
    "tree": Export(lambda: DecisionTreeClassifier(random_state=1).fit(X, TWO)),
    "forest": Export(lambda: _forest().fit(X, TWO)),
    "forest of three classes": Export(lambda: _forest().fit(X, THREE)),
    "extra trees": Export(lambda: ExtraTreesClassifier(12, max_depth=5, random_state=1).fit(X, TEXT)),
    "gradient boosting": Export(lambda: GradientBoostingClassifier(n_estimators=12).fit(X, TWO)),
    "gradient boosting, three": Export(lambda: GradientBoostingClassifier(n_estimators=8).fit(X, THREE)),
    "regression tree": Export(lambda: DecisionTreeRegressor(random_state=1).fit(X, NUMBER)),
    "regression forest": Export(lambda: RandomForestRegressor(12, random_state=1).fit(X, NUMBER)),
    "boosted regression": Export(lambda: GradientBoostingRegressor(n_estimators=12).fit(X, NUMBER)),
    "scaled forest": Export(lambda: make_pipeline(RobustScaler(), _forest()).fit(X, TWO)),
    "encoded forest": Export(lambda: encoded(_forest()).fit(FRAME, TEXT), frame=True),
    "ordinal boosting": Export(
        lambda: encoded(GradientBoostingClassifier(n_estimators=8), ordinal=True).fit(FRAME, TEXT), frame=True
    ),
    "logistic": Export(lambda: LogisticRegression().fit(X, TEXT), False),
    "logistic, three": Export(lambda: LogisticRegression().fit(X, THREE), False),
    "scaled logistic": Export(lambda: make_pipeline(StandardScaler(), LogisticRegression()).fit(X, TWO), False),
    "imputed and scaled": Export(
        lambda: make_pipeline(SimpleImputer(), MinMaxScaler(), MaxAbsScaler(), LogisticRegression()).fit(X, TWO), False
    ),
    "encoded logistic": Export(lambda: encoded(LogisticRegression()).fit(FRAME, TEXT), False, frame=True),
    "line": Export(lambda: LinearRegression().fit(X, NUMBER), False),
    "encoded line": Export(lambda: encoded(Ridge()).fit(FRAME, NUMBER), False, frame=True),
    "network": Export(lambda: MLPClassifier((8,), max_iter=50, random_state=1).fit(X, THREE), None),
    "encoded network": Export(
        lambda: encoded(MLPClassifier((8,), max_iter=50, random_state=1)).fit(FRAME, TEXT), None, frame=True
    ),
    "regression network": Export(
        lambda: MLPRegressor(hidden_layer_sizes=(8,), max_iter=50, random_state=1).fit(X, NUMBER), None
    ),
    "support vectors": Export(lambda: SVC(probability=True, random_state=1).fit(X, TWO), None),
    "neighbours": Export(lambda: KNeighborsClassifier(3).fit(X, TWO), None),
    "boosted stumps": Export(lambda: AdaBoostClassifier(n_estimators=3, random_state=1).fit(X, TWO), None),
}
GOLDEN = {path.stem: path for path in sorted(FOLDER.glob("*.onnx"))}
NAMES = (*EXPORTS, *GOLDEN)


@cache
def exported(name: str) -> bytes:
    """Return the ONNX file of a model."""
    if name in GOLDEN:
        return GOLDEN[name].read_bytes()
    from skl2onnx import to_onnx

    one = EXPORTS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = to_onnx(one.make(), FRAME[:1] if one.frame else X[:1])
    return bytes(model.SerializeToString())


@cache
def described(name: str) -> OnnxFile:
    """Return what the file of a model describes."""
    return parse(exported(name), None if name in EXPORTS and EXPORTS[name].frame else FEATURES)


def rows_for(file: OnnxFile, count: int = 400) -> np.ndarray:
    """Return rows of numbers, some at thresholds and some missing, whole numbers, and codes of texts, some unknown."""
    random = np.random.default_rng(7)
    rows = random.normal(size=(count, len(file.features))) * 1.5
    rows[: count // 4] = np.resize(X, rows[: count // 4].shape)
    rows[:: count // 9] = np.round(rows[:: count // 9])
    rows[random.random(rows.shape) < 0.03] = np.nan
    whole = [one.whole for one in file.inputs for _ in one.features]
    for slot, texts in enumerate(known_texts(file)):
        if file.kinds[slot] is Kind.TEXT:
            rows[:, slot] = random.integers(0, len(texts) + 1, count)
        elif whole[slot]:
            rows[:, slot] = random.integers(-3, 12, count)
    return rows
