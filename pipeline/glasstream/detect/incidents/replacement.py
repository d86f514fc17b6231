"""A model that was replaced by a mark: what the loss and the importance of features were before, and are since."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from glasstream.base import form
from glasstream.base.form import LARGEST_SUM, MOST, Field
from glasstream_topics.incidents import Affected, Evidence, Onset

ROWS: Final = 300
"""Rows of the new model from which on it is compared with the one before."""
VERDICT: Final = "model_pushed"

_SHIFTED: Final = 0.1  # of all importance, from which on a feature is affected
_MOST: Final = 10
_META: Final = ("number", "onset", "rows")
_OF: Final = "a replaced model"
_FORM: Final = {
    "before": Field("f8", ("levels",), missing=True),
    "sums": Field("f8", ("levels",), -LARGEST_SUM, LARGEST_SUM),
}


class _Saved(msgspec.Struct, forbid_unknown_fields=True):
    """JSON values of the state of a `Replacement`, in the order of `_META`."""

    number: Annotated[int, msgspec.Meta(ge=1, le=MOST)]
    onset: Onset
    rows: Annotated[int, msgspec.Meta(ge=0, lt=ROWS)]


Floats = NDArray[np.float64]


@dataclass(slots=True)
class Replacement:
    """Rows since a model was replaced.

    Attributes
    ----------
    number
        Number of the incident.
    onset
        The first row of the new model.
    before
        (1 + d) mean loss and importance of the model before; NaN where there was no row.
    sums
        (1 + d) sums of loss and importance since.
    rows
        Rows since.
    """

    number: int
    onset: Onset
    before: Floats
    sums: Floats
    rows: int = 0

    @classmethod
    def begun(cls, number: int, onset: Onset, means: Floats, counts: Floats) -> "Replacement":
        """Return a replacement without rows, of a model with these means over `counts` rows."""
        return cls(number, onset, np.where(counts > 0, means, np.nan), np.zeros(len(means)))

    @property
    def until_due(self) -> int:
        """Rows that are missing."""
        return ROWS - self.rows

    @property
    def due(self) -> bool:
        """Whether there are enough rows."""
        return self.rows >= ROWS

    def gather(self, levels: Floats) -> None:
        """Add rows of loss and importance."""
        # one by one: the sums must not depend on how blocks are cut
        self.sums = np.add.accumulate(np.concatenate([self.sums[np.newaxis], levels]), axis=0)[-1]
        self.rows += len(levels)

    def widen(self, features: int) -> None:
        """Make room for more features."""
        more = 1 + features - len(self.sums)
        self.before = np.concatenate([self.before, np.full(more, np.nan)])
        self.sums = np.concatenate([self.sums, np.zeros(more)])

    @property
    def loss_before(self) -> float | None:
        """Mean loss of the model before; None without a row."""
        return None if np.isnan(self.before[0]) else float(self.before[0])

    @property
    def loss_after(self) -> float | None:
        """Mean loss since; None without a row."""
        return float(self.sums[0] / self.rows) if self.rows else None

    def shifts(self, names: Sequence[str]) -> tuple[list[Affected], list[Evidence], list[str], list[str]]:
        """Return the features whose importance changed, most first, the evidence, and who gained and who lost."""
        if not self.rows or np.isnan(self.before[0]):
            return [], [], [], []
        after, row = self.sums / self.rows, self.onset.row
        evidence = [Evidence("loss", None, row, 0.0, self.loss_before, self.loss_after)]
        before = np.nan_to_num(self.before)
        steps = after[1:] - before[1:]
        whole = max(float(np.abs(before[1:]).sum()), float(np.abs(after[1:]).sum()))
        order = [j for j in np.argsort(-np.abs(steps), kind="stable").tolist() if abs(steps[j]) > _SHIFTED * whole]
        for j in order[:_MOST]:
            evidence.append(Evidence("reasoning", names[j], row, 0.0, float(before[1 + j]), float(after[1 + j])))
        shifted = [names[j] for j in order[:_MOST]]
        more = [names[j] for j in order[:_MOST] if steps[j] > 0.0]
        return [Affected(name, None) for name in shifted], evidence, more, [one for one in shifted if one not in more]

    def state(self) -> tuple[dict[str, Any], dict[str, Floats]]:
        """Return the state for a successor: JSON values and arrays."""
        return msgspec.to_builtins({key: getattr(self, key) for key in _META}), {
            "before": self.before,
            "sums": self.sums,
        }

    @classmethod
    def restored(cls, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], features: int) -> "Replacement":
        """Restore it from a saved state.

        Raises
        ------
        FrameError
            The state is damaged or forged.
        """
        saved = form.values(meta, _Saved, _OF)
        found = form.read(_FORM, arrays, _OF, levels=1 + features)
        fields: dict[str, Any] = {name: getattr(saved, name) for name in _META}
        return cls(**fields | found)
