"""A coordinator of transactions in memory, with clients whose requests may be lost, sent again, and arrive late."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from confluent_kafka import KafkaError, KafkaException

from glasstream.kafka.transport.ends import TransactionEnds

Fate = Literal["answered", "sent again", "sent again after a time-out", "undelivered", "undelivered and sent again"]
"""What happens to a transaction: the request that ends it is answered, or lost and sent again within the call or after
the call has timed out; or a record is not delivered, so that it must be aborted, by a request that may be lost too."""


@dataclass
class Coordinator:
    """What is committed, what is open, and requests that are still under way.

    Attributes
    ----------
    fates
        What happens to the transactions, one after the other; then all are answered.
    arrives
        Number of records of a later transaction after which a lost request arrives.
    """

    fates: Iterator[Fate]
    arrives: int
    committed: list[bytes] = field(default_factory=list)
    open: list[bytes] = field(default_factory=list)
    epoch: int = 0
    late: list[list[Any]] = field(default_factory=list)
    refused: int = 0

    def end(self, epoch: int, *, commit: bool) -> bool:
        """End the open transaction of a producer; return whether the producer is the newest of its name."""
        if epoch != self.epoch:
            self.refused += 1
            return False
        if commit:
            self.committed += self.open
        self.open = []
        return True

    def write(self, epoch: int, value: bytes) -> None:
        """Add a record to the open transaction, and let what is due arrive."""
        assert epoch == self.epoch, "only the newest producer writes"
        self.open.append(value)
        for request in list(self.late):
            request[0] -= 1
            if request[0] <= 0:
                self.late.remove(request)
                self.end(request[1], commit=request[2])

    def lose(self, epoch: int, *, commit: bool) -> None:
        """Keep a request that the client believes to be lost."""
        self.late.append([self.arrives, epoch, commit])


class Client:
    """Client of the coordinator, in place of librdkafka's transactional producer."""

    def __init__(self, coordinator: Coordinator, settings: Mapping[str, Any]) -> None:
        self._coordinator = coordinator
        self._ends: TransactionEnds = settings["logger"]
        self._report = settings["on_delivery"]
        self._fate: Fate | None = None
        self._epoch = 0
        self._timed_out = False

    def init_transactions(self, timeout: float) -> None:
        """Abort the transaction of the producer before, and refuse its requests from now on."""
        self._coordinator.open = []
        self._coordinator.epoch += 1
        self._epoch = self._coordinator.epoch

    def begin_transaction(self) -> None:
        self._fate = next(self._coordinator.fates, "answered")

    def produce(self, topic: str, value: bytes, key: bytes, partition: int) -> None:
        self._coordinator.write(self._epoch, value)

    def commit_transaction(self, timeout: float) -> None:
        if self._fate in ("undelivered", "undelivered and sent again"):
            self._report(KafkaError(KafkaError._MSG_TIMED_OUT), None)
            raise KafkaException(KafkaError(KafkaError._INCONSISTENT, "not delivered", False, False, True))
        if self._fate == "sent again after a time-out" and not self._timed_out:
            self._timed_out = True
            self._log("TXNSTATE", "Transaction state change BeginCommit -> CommittingTransaction")
            self._coordinator.lose(self._epoch, commit=True)
            raise KafkaException(KafkaError(KafkaError._TIMED_OUT, "no answer yet", False, True, False))
        if self._timed_out:
            self._timed_out = False
            self._log("ENDTXN", "EndTxn returned _TIMED_OUT in state CommittingTransaction (may_retry=true)")
            assert self._coordinator.end(self._epoch, commit=True)
            self._log("ENDTXN", "EndTxn returned NO_ERROR in state CommittingTransaction (may_retry=true)")
            return
        self._end(lost=self._fate == "sent again", commit=True)

    def abort_transaction(self, timeout: float) -> None:
        if self._fate is None:
            raise KafkaException(KafkaError(KafkaError._STATE))
        self._end(lost=self._fate == "undelivered and sent again", commit=False)
        self._fate = None

    def _end(self, *, lost: bool, commit: bool) -> None:
        doing = "Committing" if commit else "Aborting"
        self._log("TXNSTATE", f"Transaction state change Begin{doing[:-4]} -> {doing}Transaction")
        if lost:
            self._coordinator.lose(self._epoch, commit=commit)
            self._log("ENDTXN", f"EndTxn returned _TRANSPORT in state {doing}Transaction (may_retry=true)")
        assert self._coordinator.end(self._epoch, commit=commit)
        self._log("ENDTXN", f"EndTxn returned NO_ERROR in state {doing}Transaction (may_retry=true)")

    def _log(self, facility: str, line: str) -> None:
        self._ends.log(10, "%s [%s] %s", facility, "client", f"[thrd:main]: {line}")

    def list_topics(self, topic: str, timeout: float) -> Any:
        raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    def purge(self) -> None: ...

    def poll(self, timeout: float) -> None: ...
