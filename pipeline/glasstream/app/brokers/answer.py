"""Check whether a Kafka answers. All brokers count as available by this one condition."""

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
    """Return whether a broker at `bootstrap` sends metadata with at least one live broker before the deadline.

    Parameters
    ----------
    bootstrap
        `HOST:PORT,...`.
    deadline_s
        Seconds after which the result is False.
    client
        Further settings of librdkafka (security).
    still
        Called between attempts. The wait ends with False as soon as it returns False, for example because the broker's
        process has died.
    """
    end = time.monotonic() + deadline_s
    waiting = threading.Event()
    # Refused connections are expected here: the client must not log them.
    silent = logging.Logger("glasstream.app.brokers.answer", level=logging.CRITICAL + 1)
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
