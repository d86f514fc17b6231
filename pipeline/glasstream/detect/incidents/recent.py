"""The newest rows of a stream, as they are needed to find where in the space of its inputs something changed."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from glasstream.base import form
from glasstream.base.form import LARGEST, MOST, Count, Field
from glasstream.events.features import LONGEST_NAMED, NAMED, Kind

SIDE: Final = 600
"""Most rows before, and since, an onset."""
_NUMBERS: Final = 120_000  # that are kept: of wide streams fewer rows
_FEWEST: Final = 200  # rows that are worth keeping
_LARGEST: Final = float(np.finfo(np.float32).max)
_OF: Final = "recent rows"
_FORM: Final = {
    "rows": Field("i8", ("rows",), 0, MOST),
    "losses": Field("f8", ("rows",), -LARGEST, LARGEST),
    "inputs": Field("f4", ("rows", "features"), -_LARGEST, _LARGEST, missing=True),
}

Texts = Mapping[int, Mapping[int, str]]
_Name = Annotated[str, msgspec.Meta(max_length=LONGEST_NAMED)]
_Code = Annotated[int, msgspec.Meta(ge=0, lt=NAMED)]
Saved = list[tuple[Count, list[tuple[_Code, _Name]]]]
"""JSON values of the state: the names of categories, by feature and code."""


def most_rows(features: int) -> int:
    """Return the number of rows that are kept: twice `SIDE`, fewer of wide streams, and none of very wide ones.

    >>> [most_rows(features) for features in (0, 10, 100, 200, 600, 601)]
    [1200, 1200, 1200, 600, 200, 0]
    """
    rows = min(2 * SIDE, _NUMBERS // max(1, features))
    return rows if rows >= _FEWEST else 0


@dataclass(slots=True)
class Recent:
    """Inputs and losses of the newest rows. Inputs are kept in single precision, within its range."""

    features: int = 0
    texts: dict[int, dict[int, str]] = field(default_factory=dict)
    """Names of categories by feature and code, since a row had them."""
    _arrays: dict[str, NDArray[Any]] = field(default_factory=lambda: _storage(0))
    """Rows from `_begin` to `_end` are kept; there is room for more at both ends."""
    _begin: int = 0
    _end: int = 0

    def add(
        self, first_row: int, inputs: NDArray[np.float64], losses: NDArray[np.float64], texts: Texts, onset: int | None
    ) -> None:
        """Add the next rows.

        Parameters
        ----------
        texts
            Names of categories in these rows, and perhaps of others.
        onset
            If something may have changed: the first row of the change. Then the first rows since are kept, and not the
            newest ones.
        """
        most, count = most_rows(self.features), len(losses)
        if onset is not None:
            self._begin += int(np.searchsorted(self.rows, onset - most // 2))
            count = min(count, most - (self._end - self._begin))
        skipped = max(0, count - most)
        part = slice(skipped, count)
        count -= skipped
        if self._end + count > len(self._arrays["rows"]):
            kept = min(self._end - self._begin, most - count)
            for array in self._arrays.values():
                array[:kept] = array[self._end - kept : self._end].copy()
            self._begin, self._end = 0, kept
        place = slice(self._end, self._end + count)
        self._arrays["rows"][place] = np.arange(first_row + part.start, first_row + part.stop)
        self._arrays["losses"][place] = losses[part]
        self._arrays["inputs"][place, : inputs.shape[1]] = np.clip(inputs[part], -_LARGEST, _LARGEST)
        self._end += count
        self._begin = max(self._begin, self._end - most)
        self._name(inputs, texts)

    def _name(self, inputs: NDArray[np.float64], texts: Texts) -> None:
        for slot, named in texts.items():
            known = self.texts.get(slot, {})
            unknown = [
                code for code in named.keys() - known.keys() if code < NAMED and len(named[code]) <= LONGEST_NAMED
            ]
            if unknown:
                codes = set(inputs[:, slot].tolist())
                known |= {code: named[code] for code in unknown if code in codes}
                self.texts[slot] = known

    @property
    def rows(self) -> NDArray[np.int64]:
        """(n,) numbers of the rows, ascending."""
        return self._arrays["rows"][self._begin : self._end]

    @property
    def losses(self) -> NDArray[np.float64]:
        """(n,)"""
        return self._arrays["losses"][self._begin : self._end]

    @property
    def inputs(self) -> NDArray[np.float32]:
        """(n, d) values, NaN where one is absent; texts as codes."""
        return self._arrays["inputs"][self._begin : self._end]

    def clear(self) -> None:
        """Forget all rows."""
        self._begin = self._end = 0

    def widen(self, features: int) -> None:
        """Make room for more features, which the kept rows do not have."""
        begin = max(self._begin, self._end - most_rows(features))
        self._hold({name: array[begin : self._end] for name, array in self._arrays.items()}, features)

    def _hold(self, kept: Mapping[str, NDArray[Any]], features: int) -> None:
        self.features, self._arrays = features, _storage(features)
        self._begin, self._end = 0, len(kept["rows"])
        for name, array in kept.items():
            self._arrays[name][: self._end, ...][..., : array.shape[-1]] = array

    def state(self) -> tuple[list[Any], dict[str, NDArray[Any]]]:
        """Return the state for a successor: JSON values and arrays."""
        texts = [[slot, sorted(named.items())] for slot, named in sorted(self.texts.items())]
        return texts, {"rows": self.rows, "losses": self.losses, "inputs": self.inputs}

    def restore(self, texts: Saved, arrays: Mapping[str, NDArray[Any]], kinds: Sequence[int], row: int) -> None:
        """Restore a saved state of a stream whose newest row is `row`.

        Raises
        ------
        FrameError
            The state is damaged or forged.
        """
        found = form.read(_FORM, arrays, _OF, features=len(kinds))
        rows, most = found["rows"], most_rows(len(kinds))
        form.expect(len(rows) <= most, f"up to {most} rows", len(rows), _OF)
        form.expect((np.diff(rows) > 0).all() and (rows <= row).all(), f"ascending rows up to {row}", rows, _OF)
        fits = all(slot < len(kinds) and kinds[slot] == Kind.TEXT for slot, _ in texts)
        form.expect(fits, "names of categories of texts", [slot for slot, _ in texts], _OF)
        self.texts = {slot: dict(named) for slot, named in texts}
        self._hold(found, len(kinds))


def _storage(features: int) -> dict[str, NDArray[Any]]:
    """Return arrays with room for the rows that are kept and a quarter more, so that few additions move them."""
    rows = most_rows(features) * 5 // 4
    return {
        "rows": np.zeros(rows, np.int64),
        "losses": np.zeros(rows),
        "inputs": np.full((rows, features), np.nan, np.float32),
    }
