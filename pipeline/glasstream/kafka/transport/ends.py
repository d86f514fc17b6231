"""What a client reports about the requests by which it ends transactions.

librdkafka sends such a request again by itself and returns only the last outcome. Its debug log is the only place where
each of them appears.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final

_SENT: Final = ("-> CommittingTransaction", "-> AbortingTransaction")
"""How a change of state ends with which the client sends the request."""


class TransactionEnds:
    """Logger of a client that follows the requests by which the client ends a transaction.

    The client calls it when it is polled, from the thread that polls.

    Attributes
    ----------
    answered : bool
        Whether the broker has answered a request that ends the transaction.
    unanswered : bool
        Whether such a request was sent and not answered. It may still arrive.
    """

    def __init__(self) -> None:
        self.answered = False
        self._lost = self._waiting = False
        self._handed_on: logging.Logger | None = None

    @property
    def unanswered(self) -> bool:
        """Return whether a request was sent and not answered."""
        return self._lost or self._waiting

    def begin(self) -> None:
        """Forget the transaction before."""
        self.answered = self._lost = self._waiting = False

    def hand_on(self, logger: logging.Logger) -> None:
        """Hand every line on to `logger`."""
        self._handed_on = logger

    def log(self, level: int, pattern: str, facility: str, client: str, line: str) -> None:
        """Take a line of the client's log."""
        if facility == "TXNSTATE" and line.endswith(_SENT):
            self._waiting = True
        elif facility == "ENDTXN":  # "EndTxn returned NO_ERROR in state ..."; the client's own errors begin with "_"
            self._waiting = False
            if line.partition(" returned ")[2].startswith("_"):
                self._lost = True
            else:
                self.answered = True
        if self._handed_on is not None:
            self._handed_on.log(level, pattern, facility, client, line)


def watched(settings: Mapping[str, Any], ends: TransactionEnds) -> dict[str, Any]:
    """Return the settings of a client that reports its ends of transactions. What its user wants to see goes on."""
    debug = settings.get("debug")
    if debug:
        ends.hand_on(settings["logger"])
    return {**settings, "debug": f"{debug},eos" if debug else "eos", "log_level": "7", "logger": ends}
