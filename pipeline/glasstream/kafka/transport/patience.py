"""Waiting for brokers: retry errors that heal by themselves without limit, and raise all others."""

import logging
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from glasstream.base.errors import UnavailableError

Result = TypeVar("Result")

log = logging.getLogger(__name__)

#: Seconds of waiting before it is reported.
PATIENCE = 10.0


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
        """Return whether no caller waits for the result any more."""
        return self._over.is_set()

    def give_up(self) -> None:
        """End the waiting, because the result is no longer needed."""
        self._over.set()

    def begin(self, cause: str = "no broker answers") -> None:
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
    """Return the result of `call`; retry while brokers are down. Raise UnavailableError if patience is given up."""
    while True:
        try:
            return call()
        except UnavailableError as error:
            patience.wait(str(error), seconds)
            if patience.given_up:
                raise
