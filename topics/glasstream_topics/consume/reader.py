"""An iterator over the committed records of one topic."""

import threading
import time
from collections.abc import Collection, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Literal, NamedTuple, Self, TypeVar

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Message

from glasstream_topics.consume.opening import opened
from glasstream_topics.consume.records import Records
from glasstream_topics.consume.tables import Layout, arrow, arrow_schema, with_tables
from glasstream_topics.contract import DEFAULT_PREFIX
from glasstream_topics.errors import BrokerError, InputError, RecordError, VersionError

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

T = TypeVar("T", bound=msgspec.Struct)

_POLL_SECONDS = 0.2
"""Longest time in seconds for which an interrupt or `stop` can go unnoticed."""


class Origin(NamedTuple):
    """The topic, partition and offset of a record."""

    topic: str
    partition: int
    offset: int


class Reader(Generic[T], Iterator[T]):
    """Iterate over committed records; see `glasstream_topics.consume.Options` for the parameters.

    A reader is an iterator and a context manager: leaving the `with` block closes it. Interrupts propagate to the
    caller. The reader waits for a broker that is unreachable; this time counts as idle.

    Attributes
    ----------
    origin
        Origin of the last record that was returned or refused; None before the first.
    damaged
        Number of records that could not be read, whether they were raised or skipped.
    """

    def __init__(
        self,
        records: Records[T],
        bootstrap: str,
        *,
        prefix: str = DEFAULT_PREFIX,
        streams: str | Collection[str] | None = None,
        start: Literal["earliest", "latest"] | Mapping[int, int] = "earliest",
        group: str | None = None,
        follow: bool = True,
        idle: float | None = None,
        timeout: float | None = None,
        damaged: Literal["raise", "skip"] = "raise",
        kafka: Mapping[str, str] | None = None,
    ) -> None:
        if not isinstance(start, Mapping) and start not in ("earliest", "latest"):
            raise InputError(f"start: expected earliest, latest or offsets by partition, got {start!r}")
        if group is not None and isinstance(start, Mapping):
            raise InputError("start: expected earliest or latest for a group, which has positions of its own")
        if damaged not in ("raise", "skip"):
            raise InputError(f"damaged: expected raise or skip, got {damaged!r}")
        if group is not None and not follow:
            raise InputError(
                "group: expected None with follow=False, because each member of a group reads only some partitions; "
                "leave group out, or end with idle=SECONDS"
            )
        self.origin: Origin | None = None
        self.damaged = 0
        self._records = records
        self._layout = Layout(records.json.record)
        self._streams = None if streams is None else frozenset([streams] if isinstance(streams, str) else streams)
        self._keys = tuple(stream.encode("utf-8", "surrogatepass") for stream in self._streams or ())
        self._skip = damaged == "skip"
        self._stopped = threading.Event()
        self._closed = False
        self._used: Message | None = None
        name = prefix + records.json.topic
        self._consumer: Consumer = opened(bootstrap, name, start, group, kafka or {})
        self._in_group = group is not None
        self._unread = None if follow else {place.partition for place in self._consumer.assignment()}
        """Partitions whose current end has not been reached; None if the reader follows the topic."""
        now = time.monotonic()
        self._idle = idle
        self._quiet_since = now
        self._deadline = None if timeout is None else now + timeout

    def __next__(self) -> T:
        """Return the next record.

        Raises
        ------
        StopIteration
            `follow`, `idle`, `timeout`, `stop` or `close` ended the iteration.
        VersionError, RecordError
            The record at `origin` was written by another release, or is damaged.
        BrokerError
            The broker refuses the reader.
        """
        self._count_as_used()
        self._quiet_since = time.monotonic()  # the caller's own processing time is not idle time
        while not self._ended():
            message = self._consumer.poll(_POLL_SECONDS)
            if message is None or self._is_no_record(message):
                continue
            self._used = message
            record = self._read(message)
            if record is not None:
                return record
            self._count_as_used()
        raise StopIteration

    @property
    def positions(self) -> dict[int, int]:
        """Offset of the next record to read in each partition; empty in a group, and where reading has not begun.

        A reader that gets them as `start` continues exactly behind the last record that this one returned.
        """
        if self._in_group or self._closed:
            return {}
        places = self._consumer.assignment()
        reached = self._consumer.position(places)
        pairs = [
            (one.partition, one.offset if one.offset >= 0 else first.offset)
            for first, one in zip(places, reached, strict=True)
        ]
        return {partition: offset for partition, offset in pairs if offset >= 0}

    def to_arrow(self) -> "pyarrow.Table":
        """Read all remaining records into a table, and close the reader.

        `glasstream_topics.consume.tables` says which columns there are. A row of `importance` is one feature of one
        record, and a row of `effects` is one point of one curve. All rows must fit into memory.

        Raises
        ------
        InputError
            The reader follows the topic and has no `idle` or `timeout`, so it would never end; or pyarrow is not
            installed.
        VersionError, RecordError, BrokerError
            As in the iteration.
        """
        if self._unread is None and self._idle is None and self._deadline is None:
            raise InputError("expected a reader that ends; open it with follow=False, idle=SECONDS or timeout=SECONDS")
        schema = arrow_schema(self._layout)
        import pyarrow

        with self:
            return pyarrow.Table.from_batches(arrow(self._layout, self), schema)

    def to_pandas(self) -> "pandas.DataFrame":
        """Read all remaining records into a pandas DataFrame, as `to_arrow` does. Names become categories.

        Raises
        ------
        InputError
            As in `to_arrow`; or pandas is not installed.
        VersionError, RecordError, BrokerError
            As in the iteration.
        """
        with_tables("pandas")
        return self.to_arrow().to_pandas(categories=self._names())

    def to_polars(self) -> "polars.DataFrame":
        """Read all remaining records into a polars DataFrame, as `to_arrow` does. Names become categories.

        Raises
        ------
        InputError
            As in `to_arrow`; or polars is not installed.
        VersionError, RecordError, BrokerError
            As in the iteration.
        """
        with_tables("polars")
        import polars

        frame = polars.DataFrame(polars.from_arrow(self.to_arrow()))
        return frame.with_columns(polars.col(name).cast(polars.Categorical) for name in self._names())

    def _names(self) -> list[str]:
        return [column.name for column in self._layout.columns if column.type == "name"]

    def stop(self) -> None:
        """End the iteration soon. Another thread or a signal handler may call this method."""
        self._stopped.set()

    def close(self) -> None:
        """Close the consumer; with a group, commit the position. The last returned record does not count as read."""
        if not self._closed:
            self._closed = True
            self._stopped.set()
            self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None and not self._closed:
            self._count_as_used()
        self.close()

    def _ended(self) -> bool:
        now = time.monotonic()
        return (
            self._stopped.is_set()
            or (self._unread is not None and not self._unread)
            or (self._deadline is not None and now >= self._deadline)
            or (self._idle is not None and now - self._quiet_since >= self._idle)
        )

    def _is_no_record(self, message: Message) -> bool:
        """Return whether the client delivered an event instead of a record."""
        error = message.error()
        if error is None:
            return False
        if error.code() == KafkaError._PARTITION_EOF:
            if self._unread is not None:
                self._unread.discard(message.partition())
        elif error.code() != KafkaError._MAX_POLL_EXCEEDED and not error.retriable():
            # After too long a pause the group evicts this member. The client joins it again by itself.
            raise BrokerError(f"{message.topic()}[{message.partition()}]: cannot be read: {error.str()}")
        return True

    def _read(self, message: Message) -> T | None:
        """Return the record of a message, or None if its stream was not requested or the record is skipped."""
        data = message.value()
        if data is None or not self._may_be_asked_for(message.key()):
            return None  # a tombstone: the topic is compacted, and the record of this key was deleted
        place = Origin(message.topic() or "", message.partition() or 0, message.offset() or 0)
        try:
            record = self._records.read(data, f"{place.topic}[{place.partition}]@{place.offset}")
        except RecordError as error:
            refused = isinstance(error, VersionError)
            self.damaged += not refused
            if self._skip and not refused:
                return None
            self.origin = place
            self._used = None  # a group that stops here resumes at this record
            raise
        if self._streams is not None and getattr(record, "stream", None) not in self._streams:
            return None
        self.origin = place
        return record

    def _may_be_asked_for(self, key: bytes | None) -> bool:
        """Return whether a key belongs to a requested stream: the stream itself, or stream/... (`effects`)."""
        if self._streams is None or key is None:
            return True
        return any(key == stream or key.startswith(stream + b"/") for stream in self._keys)

    def _count_as_used(self) -> None:
        """Move the group's position behind the record that was returned last."""
        message, self._used = self._used, None
        if message is None or not self._in_group or self._closed:
            return
        try:
            self._consumer.store_offsets(message)
        except KafkaException as error:
            # Another member owns the partition now and reads the record again.
            if error.args[0].code() != KafkaError._STATE:
                raise BrokerError(f"{message.topic()}[{message.partition()}]: {error.args[0].str()}") from error
