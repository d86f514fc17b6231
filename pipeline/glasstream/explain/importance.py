"""What methods with one contribution per row and feature share: smoothing, and the records of `importance`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from numpy.typing import NDArray

from glasstream.base import form
from glasstream.explain.intervals import Interval, normal
from glasstream.explain.method import Arrays, Moment, OutputRecord, Signals
from glasstream.explain.overlap import INDEPENDENT, Overlap
from glasstream.explain.settings import MethodSettings
from glasstream.explain.smoothing import Smoothing
from glasstream_topics import importance
from glasstream_topics.contributions import Contributions


class ImportanceAggregator:
    """Smooth the contributions of one method.

    Parameters
    ----------
    settings
        All settings, with the stream's own epoch.
    draws
        Number of background rows from the reservoir on which one contribution depends.
    """

    name: ClassVar[str]

    def __init__(self, settings: MethodSettings, draws: int = 0) -> None:
        self.settings = settings
        explain = settings.explain
        self.overlap = Overlap.of(explain.sampling, explain.reservoir, draws) if draws else INDEPENDENT
        self.smoothing = Smoothing.empty(explain.alpha, self.overlap)

    @property
    def count(self) -> int:
        return self.smoothing.count

    def biased(self, loss: str) -> bool:
        """Return whether the values have a bias of unknown size, so that no interval can be given."""
        return False

    def interval(self, level: float) -> Interval | None:
        """Return the interval of the values at a level, or None while there are too few rows."""
        return normal(self.smoothing, level)

    @property
    def totals(self) -> Mapping[str, float] | None:
        """Values that belong to all features together, if there are any."""
        return None

    def update(self, block: Contributions, rows: slice) -> Signals:
        contributions = block.values[self.name][rows]
        self.smoothing.update(contributions)
        return {"importance": contributions}

    def records(self, moment: Moment) -> Iterator[OutputRecord]:
        smoothing, explain = self.smoothing, self.settings.explain
        biased = self.biased(moment.loss)
        value, ends = smoothing.value, None if biased else self.interval(explain.level)
        yield OutputRecord(
            importance.TOPIC.name,
            importance.key(moment.stream),
            importance.encode(
                stream=moment.stream,
                epoch=self.settings.epoch,
                row=moment.row,
                seq=moment.seq,
                ts=moment.ts,
                method=self.name,
                loss=moment.loss,
                alpha=explain.alpha,
                sampling=explain.sampling,
                n=smoothing.count,
                coverage=moment.coverage,
                model_version=moment.version,
                lag=moment.row - moment.version if self.settings.model.learns else 0,
                names=moment.names[: len(value)],
                value=value.tolist(),
                raw=smoothing.raw.tolist(),
                variance=smoothing.variance.tolist(),
                low=ends[0].tolist() if ends else None,
                high=ends[1].tolist() if ends else None,
                interval_kind="biased" if biased else "normal" if ends else None,
                interval_level=explain.level if ends else None,
                staleness=moment.staleness,
                totals=self.totals,
            ),
        )

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        return {"count": self.count}, dict(self.smoothing.arrays())

    def restore(self, meta: Mapping[str, Any], arrays: Arrays, kinds: Sequence[int]) -> None:
        count = form.values(meta.get("count"), form.Count, f"{self.name}, its count")
        self.smoothing = Smoothing.restore(self.smoothing.alpha, self.overlap, count, arrays)
        self._check_width(kinds)

    def _check_width(self, kinds: Sequence[int]) -> None:
        width = len(self.smoothing.raw)
        form.expect(width <= len(kinds), f"at most {len(kinds)} features", width, self.name)
