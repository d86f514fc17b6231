"""A topic that every worker of an application reads whole and follows: Faust's GlobalTable, made to do that.

Three things differ from Faust's own. The name of the topic does not depend on the application, because another one
writes it (the `changelog_topic` argument does not do that: the assignor asks the table for its name and dies). With
one partition and buffers of one record a change is seen at once (with the defaults 0 of 20 were). And nothing is kept
here: every change is handed on as bytes, and who receives them keeps what it needs.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from faust.tables.globaltable import GlobalTable

from glasstream.transport.app import StreamApp


@dataclass(frozen=True)
class TableSpec:
    """A topic to follow.

    Attributes
    ----------
    topic : str
        Its full name. It has one partition.
    on_change : callable
        Called on the event loop with key and value (None for a tombstone) of every record, in order. After a
        rebalance it gets all of them again from the start: ignore what is known.
    """

    topic: str
    on_change: Callable[[bytes, bytes | None], None]


class FollowedTable(GlobalTable):
    """A table that hands every change on and keeps nothing."""

    def __init__(self, app: StreamApp, *, spec: TableSpec, on_error: Callable[[Exception], None], **options: Any):
        self._spec = spec
        self._on_error = on_error
        super().__init__(app, **options)

    def _changelog_topic_name(self) -> str:
        return self._spec.topic

    def partition_for_key(self, key: Any) -> int:
        """Return the only partition; Faust would take that of the event at hand."""
        return 0

    def apply_changelog_batch(self, batch: Iterable[Any]) -> None:
        """Hand the changes on. An error ends the worker: Faust would log it and go on without the record."""
        for event in batch:
            message = event.message
            try:
                self._spec.on_change(message.key or b"", message.value)
            except Exception as error:  # noqa: BLE001 - whatever it is, it must end the worker, not be swallowed
                self._on_error(error)
                return


def follow_topic(app: StreamApp, spec: TableSpec, on_error: Callable[[Exception], None]) -> FollowedTable:
    """Declare the table of `spec` in `app`, before it is started."""
    table = FollowedTable(
        app,
        spec=spec,
        on_error=on_error,
        name=spec.topic,
        partitions=1,
        recovery_buffer_size=1,
        standby_buffer_size=1,
        is_global=True,
        key_type=bytes,
        value_type=bytes,
        beacon=app.tables.beacon,
    )
    app.tables.add(table)
    return table
