"""An alarm and the rows since: what an incident is judged by."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from glasstream.base import form
from glasstream.base.form import FINITE, LARGEST_SQUARE, Count, Field
from glasstream.detect.incidents.series import Name, Series
from glasstream.detect.incidents.verdict import Judgement, Level
from glasstream_topics.incidents import Onset

GATHERED = 150
"""Rows after an alarm from which the verdict is made, and rows of each later comparison."""
JUDGED_AGAIN = 600
"""Rows after an alarm up to which the verdict may change."""

NORMAL = 2_100
"""Rows after an alarm from which on the change counts as the new normal."""
QUIET = 3
"""Number of comparisons in a row that must find everything as before, so that an incident is over."""

_NUMBERS = 20_000  # that an alarm keeps: those of wide streams are judged by fewer rows
_META = ("row", "side", "onset", "number", "judgement", "rows", "summed", "quiet")
_OF: Final = "an alarm"
_FORM: Final = {
    "gathered": Field("f8", ("rows", "levels"), -FINITE, FINITE, missing=True),
    "sums": Field("f8", (3, "levels"), -LARGEST_SQUARE, LARGEST_SQUARE),
}


class _Saved(msgspec.Struct, forbid_unknown_fields=True):
    """JSON values of the state of an `Alarm`, in the order of `_META`."""

    row: Count
    side: Literal["input", "pair", "label", "loss", "reasoning"]
    onset: Onset
    number: Count
    judgement: Judgement | None
    rows: Annotated[int, msgspec.Meta(ge=0, le=NORMAL)]
    summed: Annotated[int, msgspec.Meta(ge=0, le=JUDGED_AGAIN)]
    quiet: Annotated[int, msgspec.Meta(ge=0, le=QUIET)]


Floats = NDArray[np.float64]


@dataclass(slots=True)
class Alarm:
    """An alarm whose rows are being gathered, or an open incident."""

    row: int
    side: str
    """Side of the series that raised it."""
    onset: Onset
    gathered: Floats
    """(w, 1 + d) labels and inputs since the alarm."""
    sums: Floats
    """(3, 1 + d) sums of loss and importance over `summed` rows: within bounds, their squares, and as they are."""
    number: int = 0
    """Number of the incident; 0 until it is confirmed."""
    judgement: Judgement | None = None
    rows: int = 0
    """Rows since the alarm."""
    summed: int = 0
    quiet: int = 0
    """Comparisons in a row that found everything as before."""

    @classmethod
    def raised(cls, row: int, side: str, onset: Onset, features: int) -> "Alarm":
        """Return an alarm without rows."""
        return cls(row, side, onset, np.empty((0, 1 + features)), np.zeros((3, 1 + features)))

    @property
    def until_due(self) -> int:
        """Number of rows until the next comparison."""
        return GATHERED - self.rows % GATHERED

    @property
    def due(self) -> bool:
        """Whether rows are to be compared now."""
        return self.rows % GATHERED == 0

    def gather(self, values: Floats, levels: Floats, series: Series) -> None:
        """Add rows to those that the incident is judged by: all up to `JUDGED_AGAIN`, and later the newest."""
        low, high = series.bounds()
        most = max(1, min(JUDGED_AGAIN, _NUMBERS // values.shape[1]) // GATHERED) * GATHERED
        if len(self.gathered) >= (most if self.rows < JUDGED_AGAIN else GATHERED):
            self.gathered = self.gathered[:0]
        if self.rows >= JUDGED_AGAIN and self.due:
            self.sums[:], self.summed = 0.0, 0
        self.gathered = np.concatenate([self.gathered, values])
        within = np.clip(levels, low, high)
        rows = np.stack([within, within * within, levels], axis=1)
        # one by one: the sums must not depend on how blocks are cut
        self.sums = np.add.accumulate(np.concatenate([self.sums[np.newaxis], rows]), axis=0)[-1]
        self.summed += len(values)
        self.rows += len(values)

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

    @property
    def loss(self) -> float:
        """Mean loss of the summed rows."""
        return float(self.sums[2, 0] / self.summed)

    def widen(self, features: int) -> None:
        """Make room for more features."""
        more = 1 + features - self.gathered.shape[1]
        self.gathered = np.hstack([self.gathered, np.full((len(self.gathered), more), np.nan)])
        self.sums = np.hstack([self.sums, np.zeros((3, more))])

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """Return the state for a successor: JSON values and arrays."""
        meta = msgspec.to_builtins({key: getattr(self, key) for key in _META})
        return meta, {"gathered": self.gathered, "sums": self.sums}

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
        found = form.read(_FORM, arrays, _OF, levels=1 + features)
        summed = saved.rows if saved.rows <= JUDGED_AGAIN else (saved.rows - 1) % GATHERED + 1
        form.expect(saved.summed == summed, f"sums of {summed} rows", saved.summed, _OF)
        most = min(saved.rows, JUDGED_AGAIN)
        fits = min(1, most) <= len(found["gathered"]) <= most
        form.expect(fits, f"up to {most} gathered rows", len(found["gathered"]), _OF)
        judged, changed = saved.judgement is not None, [] if saved.judgement is None else saved.judgement.changed
        form.expect(judged == (saved.number > 0) and (not judged or summed > 0), "a judged incident", saved.number, _OF)
        form.expect(set(changed) <= set(known), f"changes of {len(known)} series", changed, _OF)
        fields: dict[str, Any] = {name: getattr(saved, name) for name in _META}
        return cls(**fields | found)
