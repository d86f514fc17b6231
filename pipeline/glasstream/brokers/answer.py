"""Whether a Kafka answers: the one condition for "it is there" that all brokers are held to."""

import logging
import threading
import time
from collections.abc import Callable, Mapping

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

_TRY_S = 1.0
_PAUSE_S = 0.05


def answers(
    bootstrap: str,
    deadline_s: float,
    *,
    client: Mapping[str, str] | None = None,
    still: Callable[[], bool] = lambda: True,
) -> bool:
    """Whether a broker at `bootstrap` gives metadata with at least one live broker before the deadline.

    Parameters
    ----------
    bootstrap
        `HOST:PORT,...`.
    deadline_s
        Seconds until the answer is no.
    client
        Further settings of librdkafka (security).
    still
        Asked between tries; False ends the waiting with a no (the process that should answer has died).
    """
    end = time.monotonic() + deadline_s
    waiting = threading.Event()
    # A client that only asks whether somebody is there does not complain about refused connections.
    silent = logging.Logger("glasstream.brokers.answer", level=logging.CRITICAL + 1)
    admin = AdminClient(
        {
            **(client or {}),
            "bootstrap.servers": bootstrap,
            "reconnect.backoff.ms": 50,
            "reconnect.backoff.max.ms": 200,
        },
        logger=silent,
    )
    while (left := end - time.monotonic()) > 0 and still():
        try:
            if admin.list_topics(timeout=min(_TRY_S, left)).brokers:
                return True
        except KafkaException:
            pass
        waiting.wait(min(_PAUSE_S, max(0.0, end - time.monotonic())))
    return False
