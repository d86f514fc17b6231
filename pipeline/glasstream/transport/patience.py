"""Waiting for brokers: retry errors that heal by themselves without limit, and raise all others."""

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from confluent_kafka import KafkaError

from glasstream.errors import UnavailableError

Result = TypeVar("Result")

log = logging.getLogger(__name__)

#: Errors of a client or a broker while brokers are away, elect leaders, or have too few replicas in sync.
_HEALS = frozenset(
    {
        KafkaError._TIMED_OUT, KafkaError._MSG_TIMED_OUT, KafkaError._TIMED_OUT_QUEUE, KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN, KafkaError._RESOLVE, KafkaError._RETRY, KafkaError._WAIT_COORD,
        KafkaError._PURGE_INFLIGHT, KafkaError._PURGE_QUEUE, KafkaError._ISR_INSUFF, KafkaError._IN_PROGRESS,
        KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.NOT_ENOUGH_REPLICAS_AFTER_APPEND, KafkaError.REQUEST_TIMED_OUT,
        KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE, KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE, KafkaError.COORDINATOR_LOAD_IN_PROGRESS, KafkaError.NOT_COORDINATOR,
        KafkaError.COORDINATOR_NOT_AVAILABLE, KafkaError.NETWORK_EXCEPTION, KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.CONCURRENT_TRANSACTIONS, KafkaError.FENCED_LEADER_EPOCH, KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.NOT_CONTROLLER, KafkaError.OFFSET_NOT_AVAILABLE, KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
        KafkaError.UNKNOWN_PRODUCER_ID, KafkaError.TRANSACTION_COORDINATOR_FENCED, KafkaError.TRANSACTION_ABORTABLE,
    }
)  # fmt: skip

#: Seconds of waiting before it is reported.
PATIENCE = 10.0


def heals(error: KafkaError) -> bool:
    """Return whether an error disappears when the brokers come back."""
    return error.code() in _HEALS or bool(error.retriable())


class Patience:
    """Tracks how long one thread has waited for brokers, and for what. Other threads read it.

    Parameters
    ----------
    what : str
        Action that is impossible meanwhile, as in "cannot write to ...".
    seconds : float
        Seconds of waiting until `reason` reports it.
    clock : callable
        Clock in seconds.
    """

    def __init__(self, what: str, seconds: float = PATIENCE, clock: Callable[[], float] = time.monotonic) -> None:
        self.what = what
        self._seconds = seconds
        self._clock = clock
        self._since: float | None = None
        self._at = ""
        self._cause = ""
        self._said = self._failed = False
        self._over = threading.Event()

    @property
    def troubled(self) -> bool:
        """Return whether an attempt has failed and none has succeeded since."""
        return self._failed or self.reason is not None

    @property
    def given_up(self) -> bool:
        """Return whether nobody waits for the result any more."""
        return self._over.is_set()

    def give_up(self) -> None:
        """End the waiting, because nobody needs the result any more."""
        self._over.set()

    def begin(self, cause: str = "no broker has answered yet") -> None:
        """Record the start of an attempt. The waiting counts from the first attempt that has not succeeded."""
        if self._since is None:
            self._at, self._cause = time.strftime("%H:%M:%S"), cause
            self._since = self._clock()

    def note(self, cause: str) -> None:
        """Record the client's last message about its brokers."""
        self._cause = cause

    def wait(self, cause: str, seconds: float) -> None:
        """Record why the attempt failed, and sleep before the next one."""
        self.begin(cause)
        self._cause, self._failed = cause, True
        if self.reason is not None and not self._said:
            self._said = True
            log.warning("%s; retrying until it succeeds", self.reason)
        self._over.wait(seconds)

    def done(self) -> None:
        """Record that the attempt has succeeded."""
        if self._said:
            log.info("%s: succeeded after %.0f s", self.what, self._clock() - (self._since or 0.0))
        self._since, self._said, self._failed = None, False, False

    @property
    def reason(self) -> str | None:
        """Return what is waited for, why and since when, if the wait is long; otherwise None."""
        since = self._since
        if since is None or self._clock() - since < self._seconds:
            return None
        return (
            f"{self.what}: {self._cause}; since {self._at} ({self._clock() - since:.0f} s). The worker continues by "
            "itself when enough brokers answer (to write, at least min.insync.replicas of them)"
        )


def patiently(patience: Patience, call: Callable[[], Result], seconds: float = 1.0) -> Result:
    """Return the result of `call`; retry while brokers are away. Raise UnavailableError if patience is given up."""
    while True:
        try:
            return call()
        except UnavailableError as error:
            patience.wait(str(error), seconds)
            if patience.given_up:
                raise
