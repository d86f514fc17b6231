"""Messages about all streams: first a row for each, then the rows that have changed."""

import orjson

from glasstream.app.page.parts import outline_part, row_part
from glasstream.app.page.store import Store
from glasstream.app.page.summary import Summary

_SECONDS = 2.0
"""Least time between two messages."""


class Rows:
    """Encoded rows of the overview. Each row is built once for each change, however many viewers there are.

    Parameters
    ----------
    store
        Store of the page.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self._built: dict[str, tuple[int, bytes]] = {}

    def since(self, version: int) -> list[orjson.Fragment]:
        """Return the rows of the streams that have changed since a version of the store."""
        return [self._row(one) for one in self.store.summaries.values() if one.version > version]

    def _row(self, summary: Summary) -> orjson.Fragment:
        version, row = self._built.get(summary.name, (-1, b""))
        if version != summary.version:
            row = orjson.dumps(row_part(summary))
            self._built[summary.name] = (summary.version, row)
        return orjson.Fragment(row)


class Overview:
    """How much of the overview a viewer has received.

    Parameters
    ----------
    rows
        Rows, which all viewers share.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._sent: tuple[int, bytes] | None = None
        """Version of the store, and the encoded outline."""
        self._due = 0.0

    def message(self, now: float) -> bytes | None:
        """Return a message with what is new since the last call; None if nothing is, or if the last message was sent
        less than two seconds ago. `now`, in seconds, never decreases.
        """
        if self._sent is not None and now < self._due:
            return None
        store = self._rows.store
        outline = outline_part(store)
        seen = store.version, orjson.dumps(outline)
        if seen == self._sent:
            return None
        before, self._sent, self._due = self._sent, seen, now + _SECONDS
        if before is None:
            return self.whole()
        return orjson.dumps({"type": "rows", **outline, "rows": self._rows.since(before[0])})

    def whole(self) -> bytes:
        """Return a state with the rows of all streams."""
        state: dict[str, object] = {"type": "state", "streams": [], "stream": None, "epoch": None, "behind": None}
        return orjson.dumps({**state, **outline_part(self._rows.store), "rows": self._rows.since(-1)})
