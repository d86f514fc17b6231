"""An alarm and the rows since: what an incident is judged by."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from glasstream.base import form
from glasstream.base.form import FINITE, LARGEST_SQUARE, MOST, Count, Field
from glasstream.detect.incidents.betting import BINS, tally
from glasstream.detect.incidents.pairs import differences
from glasstream.detect.incidents.series import Name, Series
from glasstream.detect.incidents.verdict import Judgement, Level
from glasstream_topics.incidents import Onset, Where

GATHERED = 150
"""Rows after an alarm from which the verdict is made, and rows of each later comparison."""
JUDGED_AGAIN = 600
"""Rows after an alarm up to which the verdict may change."""
GROWN = 1.0
"""log10 by which the evidence of a pending alarm must have grown, so that later rows than these confirm it."""

NORMAL = 2_100
"""Rows after an alarm from which on the change counts as the new normal."""
QUIET = 3
"""Number of comparisons in a row that must find everything as before, so that an incident is over."""

_NUMBERS = 20_000  # that an alarm keeps: those of wide streams are judged by fewer rows
_META = ("row", "pending", "strengths", "onset", "before", "number", "judgement", "rows", "summed", "quiet", "where")
_OF: Final = "an alarm"
_FORM: Final = {
    "gathered": Field("f8", ("rows", "levels"), -FINITE, FINITE, missing=True),
    "sums": Field("f8", (3, "levels"), -LARGEST_SQUARE, LARGEST_SQUARE),
    "counts": Field("f8", ("values", BINS), 0, MOST, whole=True),
    "answers": Field("f8", ("values", BINS), -LARGEST_SQUARE, LARGEST_SQUARE),
    "compared": Field("f8", ("values", BINS), 0, MOST, whole=True),
}


_ONE: Final = msgspec.Meta(min_length=1)
_Series = tuple[Literal["input", "pair", "label", "loss", "reasoning"], Count]


class _Saved(msgspec.Struct, forbid_unknown_fields=True):
    """JSON values of the state of an `Alarm`, in the order of `_META`."""

    row: Count
    pending: Annotated[list[_Series], _ONE]
    strengths: list[float]
    onset: Onset
    before: float | None
    number: Count
    judgement: Judgement | None
    rows: Annotated[int, msgspec.Meta(ge=0, le=NORMAL)]
    summed: Annotated[int, msgspec.Meta(ge=0, le=JUDGED_AGAIN)]
    quiet: Annotated[int, msgspec.Meta(ge=0, le=QUIET)]
    where: Where | None


Floats = NDArray[np.float64]


@dataclass(slots=True)
class Alarm:
    """An alarm whose rows are being gathered, or an open incident."""

    row: int
    pending: list[Name]
    """The series that raised it: the newest one, and those that were pending when it did."""
    strengths: list[float]
    """Strength of each of them when it raised its alarm."""
    onset: Onset
    before: float | None
    """Mean loss before the onset; None if it is not known."""
    gathered: Floats
    """(w, 1 + d) the newest labels and inputs since the alarm."""
    sums: Floats
    """(3, 1 + d) sums of loss and importance over `summed` rows: within bounds, their squares, and as they are."""
    counts: Floats
    """(s, BINS) number of the values of each series in each bin, over all rows before a verdict."""
    answers: Floats
    """(s, BINS) sums of the labels of these rows, without the weight of outliers."""
    compared: Floats
    """(s, BINS) number of the values of the rows that `counts` no longer has."""
    number: int = 0
    """Number of the incident; 0 until it is confirmed."""
    judgement: Judgement | None = None
    rows: int = 0
    """Rows since the alarm."""
    summed: int = 0
    quiet: int = 0
    """Comparisons in a row that found everything as before."""
    where: Where | None = None
    """Where the change is; None if it is not known."""

    @classmethod
    def raised(
        cls, row: int, over: Name, onset: Onset, before: float | None, series: Series, former: "Alarm | None"
    ) -> "Alarm":
        """Return an alarm without rows, about what a former one is about, too."""
        pending, strengths = ([], []) if former is None else (former.pending, former.strengths)
        values, levels = len(series.arrays["used"]), 1 + series.width
        return cls(
            row,
            [over, *pending],
            [series.strength(over), *strengths],
            onset,
            before,
            gathered=np.empty((0, levels)),
            sums=np.zeros((3, levels)),
            counts=np.zeros((values, BINS)),
            answers=np.zeros((values, BINS)),
            compared=np.zeros((values, BINS)),
        )

    def grown(self, series: Series, changed: Collection[Name]) -> float:
        """Return by how much the strength of a series that changed has grown since it raised the alarm, at most."""
        pairs = zip(self.pending, self.strengths, strict=True)
        return max((series.strength(name) - then for name, then in pairs if name in changed), default=0.0)

    @property
    def side(self) -> str:
        """Side of the series that raised it."""
        return self.pending[0].side

    @property
    def until_due(self) -> int:
        """Number of rows until the next comparison."""
        return GATHERED - self.rows % GATHERED

    @property
    def due(self) -> bool:
        """Whether rows are to be compared now."""
        return self.rows % GATHERED == 0

    def gather(self, values: Floats, levels: Floats, series: Series) -> None:
        """Add rows to those that the incident is judged by: all up to `JUDGED_AGAIN`, and later the newest.

        The values of all rows are counted by bins until there is a verdict.
        """
        low, high = series.bounds()
        most = max(1, min(JUDGED_AGAIN, _NUMBERS // values.shape[1]) // GATHERED) * GATHERED
        if len(self.gathered) >= (most if self.rows < JUDGED_AGAIN else GATHERED):
            self.gathered = self.gathered[:0]
        if self.rows >= JUDGED_AGAIN and self.due:
            self.sums[:], self.summed = 0.0, 0
            if self.judgement is not None:
                self.compared += self.counts
                self.counts[:], self.answers[:] = 0.0, 0.0
        self.gathered = np.concatenate([self.gathered, values])
        within = np.clip(levels, low, high)
        rows = np.stack([within, within * within, levels], axis=1)
        # one by one: the sums must not depend on how blocks are cut
        self.sums = np.add.accumulate(np.concatenate([self.sums[np.newaxis], rows]), axis=0)[-1]
        self._tally(values, series)
        self.summed += len(values)
        self.rows += len(values)

    def _tally(self, values: Floats, series: Series) -> None:
        """Count the values of each series by bins, and sum the labels there."""
        edges, used = series.arrays["edges"], series.arrays["used"]
        more = len(used) - len(self.counts)
        if more:  # pairs that calibration has found since
            tallies = self.counts, self.answers, self.compared
            self.counts, self.answers, self.compared = (np.pad(one, ((0, more), (0, 0))) for one in tallies)
        with_pairs = np.hstack([values, differences(values[:, 1:], series.pairs)]) if series.pairs else values
        tally(with_pairs, edges, np.maximum(used, 0), self.counts, self.answers)

    def levels(self, series: Series) -> list[Level]:
        """Return loss and importance before and after the alarm, without the weight of outliers."""
        after, squares, _ = self.sums / self.summed
        before, variance = series.levels_before(self.onset.row)
        spread = np.sqrt(np.maximum(variance, squares - after**2))
        blocks = series.arrays["level_block"]
        return [
            Level(float(then), float(spread[place]), float(after[place]), self.summed / float(blocks[place]))
            for place, then in enumerate(before)
        ]

    def widen(self, features: int) -> None:
        """Make room for more features."""
        more = 1 + features - self.gathered.shape[1]
        self.gathered = np.hstack([self.gathered, np.full((len(self.gathered), more), np.nan)])
        self.sums = np.hstack([self.sums, np.zeros((3, more))])
        end = self.gathered.shape[1] - more
        fresh = np.zeros((more, BINS))
        self.counts, self.answers, self.compared = (
            np.concatenate([one[:end], fresh, one[end:]]) for one in (self.counts, self.answers, self.compared)
        )

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state for a successor: JSON values and arrays."""
        meta = msgspec.to_builtins({key: getattr(self, key) for key in _META})
        return meta, {name: getattr(self, name) for name in _FORM}

    @classmethod
    def restored(
        cls, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], features: int, known: Collection[Name]
    ) -> "Alarm":
        """Restore an alarm from a saved state.

        Parameters
        ----------
        features, known
            Number of features of the stream, and its series.

        Raises
        ------
        FrameError
            The state is damaged or forged.
        """
        saved = form.values(meta, _Saved, _OF)
        values = 1 + features + sum(name.side == "pair" for name in known)
        found = form.read(_FORM, arrays, _OF, levels=1 + features, values=values)
        summed = saved.rows if saved.rows <= JUDGED_AGAIN else (saved.rows - 1) % GATHERED + 1
        form.expect(saved.summed == summed, f"sums of {summed} rows", saved.summed, _OF)
        counted = (found["counts"] + found["compared"]).sum(axis=1)
        form.expect((counted <= saved.rows).all(), f"up to {saved.rows} values of a series", counted, _OF)
        most = min(saved.rows, JUDGED_AGAIN)
        fits = min(1, most) <= len(found["gathered"]) <= most
        form.expect(fits, f"up to {most} gathered rows", len(found["gathered"]), _OF)
        judged, changed = saved.judgement is not None, [] if saved.judgement is None else saved.judgement.changed
        form.expect(
            judged == (saved.number > 0) and (not judged or saved.summed > 0), "a judged incident", saved.number, _OF
        )
        pending = [Name(*one) for one in saved.pending]
        form.expect({*changed, *pending} <= set(known), f"changes of {len(known)} series", [*changed, *pending], _OF)
        form.expect(len(saved.strengths) == len(pending), "a strength of each pending series", saved.strengths, _OF)
        fields: dict[str, Any] = {name: getattr(saved, name) for name in _META} | {"pending": pending}
        return cls(**fields | found)


def warm_up() -> None:
    """Compile what runs when an alarm is raised."""
    series = Series(1.0)
    edges, used = series.arrays["edges"], series.arrays["used"]
    tally(
        np.zeros((1, len(used))), edges, np.maximum(used, 0), np.zeros((len(used), BINS)), np.zeros((len(used), BINS))
    )
