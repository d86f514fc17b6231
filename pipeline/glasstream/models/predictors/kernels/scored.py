"""The common part of predictors that come from an ONNX file: tables that give scores, and how these end."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np

from glasstream.models.predictors.arrays import Array, read_tuple, require, sealed_tuple
from glasstream.models.predictors.compiled import choice, texts
from glasstream.models.predictors.kernels.games import IDENTITY, LOGIT, SOFTMAX
from glasstream.models.predictors.kernels.scores import LABELS, TRANSFORMS, finished
from glasstream.models.predictors.predictor import CLASSIFICATION, REGRESSION, Floats, Integers, Output, Task
from glasstream_topics.attributions import Link


class Ending(NamedTuple):
    """How the scores of a row become probabilities and a label: see `scores.finish` of this package."""

    transform: str = "none"
    label: str = "greatest"
    shares: bool = False

    def scores(self, classes: int) -> int:
        """Return the number of scores of a row for so many classes (0 for a regression)."""
        return classes if classes and self.label == "greatest" else 1


class Scored:
    """A predictor whose tables give float32 scores.

    Parameters
    ----------
    features, classes
        Features and classes; see `Predictor`. No classes for a regression.
    ending
        How the scores end.
    tables
        The arrays, in the order of `Tables`.

    Raises
    ------
    FrameError
        The arrays would lead a kernel out of bounds.
    """

    form: ClassVar[str]
    Tables: ClassVar[type[Any]]
    compiled = True

    def __init__(
        self, features: tuple[str, ...], classes: tuple[str, ...], ending: Ending, tables: Iterable[object]
    ) -> None:
        self.features = features
        self.classes = classes
        self.task: Task = CLASSIFICATION if classes else REGRESSION
        self._ending = ending
        self._scores = ending.scores(len(classes))
        self._tables = sealed_tuple(self.Tables, tables)
        self._check(self._tables, len(features), self._scores)

    def _scale(self) -> tuple[Link, Integers, Floats] | None:
        """Return the link to the scale on which an output is a score, its score, and the sign (see `games.TreeGame`).

        None if there is no such scale.
        """
        transform, label, shares = self._ending
        score, sign = np.arange(max(1, len(self.classes))), np.ones(max(1, len(self.classes)))
        if label != "greatest":
            score, sign = np.zeros(2, np.int64), np.array([-1.0, 1.0])
        links: dict[str, Link] = {"none": IDENTITY, "logistic": LOGIT, "softmax": SOFTMAX}
        link = links[transform] if label == "greatest" else LOGIT if label == "above zero" else IDENTITY
        return None if shares and link != SOFTMAX else (link, score, sign)

    def _answered(self, scores: Floats) -> Output:
        return finished(scores, *self._ending, len(self.classes))

    def pack(self) -> tuple[dict[str, object], dict[str, Array]]:
        ending = self._ending._asdict()
        return {"features": self.features, "classes": self.classes, **ending}, self._tables._asdict()

    @classmethod
    def unpack(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        features, classes = texts(meta, "features"), texts(meta, "classes")
        shares = meta.get("shares")
        require(isinstance(shares, bool), "'shares' as a boolean")
        ending = Ending(
            choice(meta, "transform", tuple(TRANSFORMS)), choice(meta, "label", tuple(LABELS)), bool(shares)
        )
        require(ending.label == "greatest" or len(classes) == 2, "two classes for one score")
        return cls(features, classes, ending, read_tuple(cls.Tables, arrays))

    @classmethod
    def _check(cls, tables: Any, features: int, scores: int) -> None:
        """Check that the arrays keep the kernels within bounds.

        Raises
        ------
        FrameError
            They do not.
        """
        raise NotImplementedError
