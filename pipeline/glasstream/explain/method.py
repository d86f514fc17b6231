"""Interface of an explanation method: what the learner draws, how a block is explained, how it is aggregated.

`glasstream_topics.methods` declares the arrays that travel between the stages. `glasstream.explain.registry` lists the
methods.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from glasstream.base.errors import StateError
from glasstream.events.features import FeatureTable, Kind
from glasstream.explain.sampling.reservoir import Drawn, Wanted
from glasstream.explain.settings import MethodSettings
from glasstream.models.predictors.predictor import Predictor
from glasstream_topics.contributions import Contributions
from glasstream_topics.drift import CurveFields
from glasstream_topics.methods import LARGEST, METHODS
from glasstream_topics.requests import ExplainRequest

Arrays = Mapping[str, NDArray[Any]]
Signals = Mapping[str, NDArray[np.float64]]
"""Series that detectors can watch, by `glasstream_topics.drift.SIGNALS`: (rows, d), or (rows, 1) for the loss."""


class Passing(NamedTuple):
    """Rows of a stream that pass through what the learner keeps."""

    block: NDArray[np.float64]
    """(count, d) consecutive rows, NaN where a feature is absent. d may have grown since the last block."""
    kinds: Sequence[Kind]
    """Kinds of the d features."""
    first_row: int
    """Number of the block's first row."""
    start: int
    """First row that is explained, t0. Earlier rows enter and draw nothing."""
    answers: tuple[NDArray[np.int64], NDArray[np.float64]] | None = None
    """(count,) the number of the class predicted for each event, -1 if there is none, and its probability; 0 and the
    predicted number for a regression. None if no method needs them."""

    @property
    def explained(self) -> int:
        """Number of the rows that are explained, at the end of the block."""
        return min(len(self.block), max(0, self.first_row + len(self.block) - self.start))


class Drawing(ABC):
    """A method's part of the learner of one stream. It can be pickled, too."""

    wanted = Wanted()
    """Draws from the reservoir. Methods that want draws of one kind share them, and must want equally many."""

    @abstractmethod
    def draw(self, rows: Passing, drawn: Drawn) -> dict[str, NDArray[Any]]:
        """Return what the rows are explained with: the arrays that `glasstream_topics.methods` declares as `draws`.

        The draws of a row must depend on earlier rows only, and not on how rows are cut into blocks.
        """

    @abstractmethod
    def numbers(self, width: int) -> int:
        """Return the largest count of numbers that one row of `width` features takes in a block."""

    def fields(self, draws: Arrays, rows: NDArray[np.float64], features: FeatureTable, width: int) -> dict[str, Any]:
        """Return the fields of `ExplainRequest` that only this method needs, and the `texts` of codes in its answer.

        `rows` (count, d) are those of the block.
        """
        return {}

    def state(self) -> dict[str, NDArray[Any]] | None:
        """Return what the method keeps of earlier rows as arrays; None if only a pickle can hold it."""
        return {}

    def restore(self, arrays: Arrays, features: FeatureTable) -> None:
        """Continue from what `state` returned.

        Raises
        ------
        StateError
            The arrays are not a state of this method, or do not fit the features of the stream.
        """
        if arrays:
            raise StateError(f"expected a method that keeps nothing of earlier rows, got {', '.join(arrays):.60}")


class OutputRecord(NamedTuple):
    """A record to be published."""

    topic: str
    """Name of the topic, without the prefix."""
    key: bytes
    value: bytes


@dataclass(frozen=True, slots=True)
class Moment:
    """State of the newest aggregated row that every record contains."""

    stream: str
    row: int
    seq: int
    ts: int | None
    version: int
    coverage: float
    loss: str
    staleness: float | None
    names: list[str]


@runtime_checkable
class HasEvents(Protocol):
    """An aggregator that publishes a record for single events, whenever they come."""

    def taken(self) -> list[OutputRecord]:
        """Return the records of the events since the last call."""


class MethodAggregator(Protocol):
    """A method's part of the aggregator of one stream. It begins without rows."""

    name: ClassVar[str]

    @property
    def count(self) -> int:
        """n, the number of rows in the estimate."""

    def update(self, block: Contributions, rows: slice) -> Signals:
        """Add rows of a block in order; return the values of each row that detectors may watch."""

    def records(self, moment: Moment) -> Iterator[OutputRecord]:
        """Return the records as of the newest row."""

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state for a successor: JSON values and arrays."""

    def restore(self, meta: Mapping[str, Any], arrays: Arrays, kinds: Sequence[int]) -> None:
        """Restore a saved state.

        Parameters
        ----------
        kinds
            Kinds of the stream's features.

        Raises
        ------
        FrameError
            The state is damaged or forged.
        """


@runtime_checkable
class HasCurves(Protocol):
    """An aggregator of curves, which drift alarms show and compare."""

    def copy(self) -> "HasCurves":
        """Return an independent copy."""

    def update(self, block: Contributions, rows: slice) -> Signals:
        """Add rows of a block in order."""

    def named_curves(self) -> dict[int, list[CurveFields]]:
        """Return the smoothed curves of every feature, one per output, with points in readable form."""

    def total_importance(self, *, squares: bool) -> float:
        """Return the importance of all curves together, the mean over the outputs."""


class Method(ABC):
    """One explanation method. The defaults suit a method whose arrays all have one entry per row.

    A block asks for a method by its draws, so every method declares at least one array of draws.
    """

    name: ClassVar[str]

    @abstractmethod
    def drawing(self, settings: MethodSettings, key: NDArray[np.uint64]) -> Drawing:
        """Return the part of a new stream's learner. `key` keys the stream's draws."""

    @abstractmethod
    def explainer(
        self, block: ExplainRequest, predictor: Predictor, targets: NDArray[np.float64]
    ) -> Callable[[slice], dict[str, NDArray[Any]]]:
        """Return a function from some rows of a block to the arrays that the method declares as `values`.

        The values of a row must not depend on other rows. `targets` has the numbers of the predictor's classes.
        """

    @abstractmethod
    def aggregator(self, settings: MethodSettings) -> MethodAggregator:
        """Return the part of a new stream's aggregator."""

    def finite(self, values: Arrays) -> NDArray[np.bool_]:
        """Return (count,) the rows whose values can all be aggregated."""
        checks = [
            (np.abs(values[name]) <= LARGEST).reshape(len(values[name]), -1).all(axis=1)
            for name in METHODS[self.name].values
            if name in values
        ]
        return np.asarray(np.logical_and.reduce(checks))

    def part(self, block: ExplainRequest, rows: slice) -> dict[str, Any]:
        """Return `draws`, and other fields of `ExplainRequest` that only this method needs, for a part of a block."""
        return {"draws": {name: block.draws[name][rows] for name in METHODS[self.name].draws}}

    def drawn(self, draws: Arrays, slot: int, width: int) -> NDArray[np.float64]:
        """Return (n,) all values of one feature in the draws, where NaN stands for no value."""
        shapes = METHODS[self.name].draws.items()
        names = [name for name, (dtype, dims) in shapes if dtype == "float64" and dims[-1] == "d"]
        return np.concatenate([draws[name].reshape(-1, width)[:, slot] for name in names])
