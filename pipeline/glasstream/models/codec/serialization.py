"""Write and read every form of compiled predictor as names and arrays."""

from collections.abc import Mapping
from typing import Any, Final, cast

from glasstream.base.errors import FrameError
from glasstream.models.predictors.arrays import Array, require
from glasstream.models.predictors.compiled import Compiled, Composed, Simple
from glasstream.models.predictors.kernels.bayes import GaussianBayes
from glasstream.models.predictors.kernels.committee import AveragingCommittee, VotingCommittee
from glasstream.models.predictors.kernels.linear import LinearPredictor
from glasstream.models.predictors.kernels.mondrian import MondrianForest
from glasstream.models.predictors.kernels.scored_forms import ScoredForms
from glasstream.models.predictors.kernels.scored_trees import ScoredTrees
from glasstream.models.predictors.kernels.softmax import SoftmaxPredictor
from glasstream.models.predictors.kernels.transform import Transformed
from glasstream.models.predictors.kernels.trees import ClassificationTrees, RegressionTrees

_SIMPLE: Final[tuple[type[Simple], ...]] = (
    ClassificationTrees,
    RegressionTrees,
    LinearPredictor,
    SoftmaxPredictor,
    GaussianBayes,
    MondrianForest,
    ScoredTrees,
    ScoredForms,
)
_COMPOSED: Final[tuple[type[Composed], ...]] = (Transformed, VotingCommittee, AveragingCommittee)
FORMS: Final[Mapping[str, type[Compiled]]] = {one.form: one for one in (*_SIMPLE, *_COMPOSED)}
"""Forms by their names in a snapshot."""

DEPTH: Final = 16
"""Largest depth of nested predictors. No real pipeline of pipelines comes near; a forged snapshot cannot exceed it."""


def pack(predictor: Compiled) -> tuple[dict[str, object], dict[str, Array]]:
    """Return JSON values and arrays from which `unpack` restores `predictor`.

    The arrays of part 0 are named 0/..., and so on.
    """
    meta, arrays = predictor.pack()
    content: dict[str, object] = {"form": predictor.form, "model": meta}
    if isinstance(predictor, Composed):
        parts = []
        for number, part in enumerate(predictor.parts):
            own, own_arrays = pack(part)
            parts.append(own)
            arrays |= {f"{number}/{name}": array for name, array in own_arrays.items()}
        content["parts"] = parts
    return content, arrays


def unpack(content: Mapping[str, Any], arrays: Mapping[str, Array], depth: int = 0) -> Compiled:
    """Return the predictor from the result of `pack`, `content` and `arrays`.

    Raises
    ------
    FrameError
        There is no such form, or the content does not describe one.
    """
    form, meta = content.get("form"), content.get("model")
    require(isinstance(form, str) and isinstance(meta, dict), "form and model")
    require(form in FORMS, f"one of the forms {', '.join(FORMS)}")
    kind = FORMS[str(form)]
    if kind not in _COMPOSED:
        return cast("type[Simple]", kind).unpack(meta or {}, arrays)
    if depth == DEPTH:
        raise FrameError(f"model snapshot: expected at most {DEPTH} predictors in each other, got more")
    parts = content.get("parts")
    require(isinstance(parts, list) and all(isinstance(part, dict) for part in parts), "'parts' as a list of objects")
    own: dict[str, dict[str, Array]] = {"": {}}
    for name, array in arrays.items():
        number, slash, rest = name.partition("/")
        own.setdefault(number if slash else "", {})[rest if slash else name] = array
    read = tuple(unpack(part, own.get(str(number), {}), depth + 1) for number, part in enumerate(parts or ()))
    return kind.assemble(meta or {}, own[""], read)
