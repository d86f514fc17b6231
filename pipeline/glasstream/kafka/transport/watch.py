"""Follows the records of a topic outside a consumer group: a thread, a plain consumer, and a callback on the loop."""

import asyncio
import logging
import queue
import threading
from collections.abc import Callable

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition

from glasstream.base.errors import BrokerError
from glasstream.kafka.transport.connection import Connection
from glasstream_topics.client_errors import heals

log = logging.getLogger(__name__)

#: Callback on the event loop with partition, offset, key and value.
OnRecord = Callable[[int, int, bytes | None, bytes | None], None]

#: Seconds that a read waits, and so the delay of a change of partitions.
_WAIT = 0.05
#: Number of records to hand to the loop at a time.
_BATCH = 200


class Follower:
    """Reader that reads partitions of a topic from their start, and continues for as long as it follows them.

    Parameters
    ----------
    connection : Connection
    topic : str
    on_record : callable
        Function that is called on the event loop that awaited `start`, with partition, offset, key and value, in the
        order of the partition. If it raises an exception, or reading fails for good, `on_error` receives the error.
    on_error : callable
        Function that is called once on the loop if following ends with an error.
    read_committed : bool
        Whether to skip records of aborted and open transactions.
    """

    def __init__(
        self,
        connection: Connection,
        topic: str,
        on_record: OnRecord,
        on_error: Callable[[Exception], None] | None = None,
        *,
        read_committed: bool = True,
    ) -> None:
        self._connection = connection
        self._topic = topic
        self._on_record = on_record
        self._on_error = on_error
        self._read_committed = read_committed
        self._wishes: queue.SimpleQueue[tuple[bool, int]] = queue.SimpleQueue()
        self._followed: set[int] = set()
        self._ending = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def start(self) -> None:
        """Start the thread."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name=f"follow {self._topic}", daemon=True)
        self._thread.start()

    async def stop(self) -> None:
        """End the thread."""
        self._ending.set()
        if self._thread is not None:
            await asyncio.to_thread(self._thread.join, 5.0)

    def follow(self, partition: int) -> None:
        """Begin with the first record of `partition`, even if it was followed before."""
        self._followed.add(partition)
        self._wishes.put((True, partition))

    def unfollow(self, partition: int) -> None:
        """Deliver no more records of `partition`."""
        self._followed.discard(partition)
        self._wishes.put((False, partition))

    def _run(self) -> None:
        reader = Consumer(self._connection.consumer(read_committed=self._read_committed))
        try:
            while not self._ending.is_set():
                self._change(reader)
                self._read(reader)
        except (KafkaException, BrokerError) as error:
            self._call(self._fail, error)
        finally:
            reader.close()

    def _change(self, reader: Consumer) -> None:
        while not self._wishes.empty():
            wanted, partition = self._wishes.get()
            where = TopicPartition(self._topic, partition, OFFSET_BEGINNING)
            if any(held.partition == partition for held in reader.assignment()):
                reader.incremental_unassign([where])
            if wanted:
                reader.incremental_assign([where])

    def _read(self, reader: Consumer) -> None:
        records = []
        for message in reader.consume(_BATCH, timeout=_WAIT):
            error = message.error()
            if error is None:
                records.append((message.partition(), message.offset(), message.key(), message.value()))
            elif not heals(error):
                raise BrokerError(f"{self._topic} cannot be followed: {error.str()}")
        if records:
            self._call(self._hand_on, records)

    def _call(self, function: Callable[..., None], *args: object) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *args)

    def _hand_on(self, records: list[tuple[int, int, bytes | None, bytes | None]]) -> None:
        for partition, offset, key, value in records:
            if partition in self._followed and not self._ending.is_set():
                try:
                    self._on_record(partition, offset, key, value)
                except Exception as error:  # noqa: BLE001 - it must reach the stage, not the loop's handler
                    self._fail(error)
                    return

    def _fail(self, error: Exception) -> None:
        self._ending.set()
        if self._on_error is not None:
            self._on_error(error)
        else:
            log.error("can no longer read %s: %s; restart this worker", self._topic, error)
