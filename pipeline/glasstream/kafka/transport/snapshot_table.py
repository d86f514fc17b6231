"""Faust's GlobalTable, changed into a topic that every worker of an application reads whole and follows.

It differs from Faust's table in three ways. The name of the topic does not depend on the application, because another
application writes it (with the `changelog_topic` argument, the assignor asks the table for its name and dies). With one
partition and buffers of one record, a change is visible at once (with the defaults 0 of 20 were). The table stores
nothing: it passes every change on as bytes, and the receiver stores what it needs.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from faust.tables.globaltable import GlobalTable

from glasstream.kafka.transport.app import StreamApp


@dataclass(frozen=True)
class TableSpec:
    """Topic to follow.

    Attributes
    ----------
    topic : str
        Full name of the topic. It has one partition.
    on_change : callable
        Function that is called on the event loop with key and value (None for a tombstone) of every record, in order.
        After a rebalance it receives all records again and must ignore known ones.
    """

    topic: str
    on_change: Callable[[bytes, bytes | None], None]


class FollowedTable(GlobalTable):
    """Table that passes every change on and stores nothing."""

    def __init__(self, app: StreamApp, *, spec: TableSpec, on_error: Callable[[Exception], None], **options: Any):
        self._spec = spec
        self._on_error = on_error
        super().__init__(app, **options)

    def _changelog_topic_name(self) -> str:
        return self._spec.topic

    def partition_for_key(self, key: Any) -> int:
        """Return the only partition. Faust would use the partition of the current event."""
        return 0

    def apply_changelog_batch(self, batch: Iterable[Any]) -> None:
        """Pass the changes on. An error ends the worker: Faust would log it and continue without the record."""
        for event in batch:
            try:
                for record in event.value.records:
                    self._spec.on_change(record.key or b"", record.value)
            except Exception as error:  # noqa: BLE001 - whatever it is, it must end the worker, not be swallowed
                self._on_error(error)
                return


def follow_topic(app: StreamApp, spec: TableSpec, on_error: Callable[[Exception], None]) -> FollowedTable:
    """Declare the table of `spec` in `app`, before the application starts."""
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
