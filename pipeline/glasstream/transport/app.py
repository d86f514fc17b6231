"""The Faust application of a stage, set up so that nothing is lost, held up or started by surprise."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import faust
from faust.app import base
from faust.types import TP

from glasstream.transport.connection import Connection
from glasstream.transport.consumer import POLL_RECORDS, Positions, Transport
from glasstream.transport.options import StageOptions

#: Seconds; longer than any run. Faust warns when a stream stands still, which ours do on purpose (hold-back).
_NEVER = 10.0**9


@dataclass(frozen=True)
class ConsumerSettings:
    """What Faust has no setting for: see `consumer.ConsumerThread`."""

    read_committed: bool
    fetch_wait_ms: int


class _Boot(base.BootStrategy):
    """Starts no web server: Faust would bind 0.0.0.0:6066 whatever `web_enabled` says."""

    enable_web = False


class StreamApp(faust.App):
    """A Faust application that asks the stage where its partitions begin.

    Attributes
    ----------
    positions, seeking : callable
        Set by the stage: says where to read each partition of the input from; is told before it is done.
    out_of_range : callable
        Set by the stage: is told that the log does not have the offset of a partition that is read next.
    leave_group : bool
        Whether a stop gives the partitions up at once. False leaves them to the session time-out.
    """

    BootStrategy = _Boot

    consumer_settings: ConsumerSettings
    leave_group: bool = True
    positions: Positions
    seeking: Callable[[Mapping[TP, int]], None]
    out_of_range: Callable[[TP, int], None]

    def _new_transport(self) -> Transport:
        return Transport(self.conf.broker_consumer, self)

    def FlowControlQueue(self, maxsize: int | None = None, *, clear_on_resume: bool = False) -> Any:
        """Return a queue that a resume does not empty.

        After a rebalance Faust seeks and resumes the partitions first and then the flow, which empties every queue
        made with `clear_on_resume`: what was fetched in between was never seen (16 to 20 gaps in 14 restarts). What
        is stale carries another generation and is dropped by that.
        """
        return super().FlowControlQueue(maxsize, clear_on_resume=False)

    def _create_directories(self) -> None:
        """Make none: nothing of ours is on disk."""


def make_app(connection: Connection, options: StageOptions) -> StreamApp:
    """Return the application of one worker; nothing is connected yet."""
    app = StreamApp(
        options.group,
        broker=connection.broker_urls(),
        broker_credentials=connection.faust_credentials(),
        broker_client_id=f"{options.group}.{options.instance}",
        broker_session_timeout=options.session_timeout,
        broker_heartbeat_interval=options.heartbeat_interval,
        broker_max_poll_interval=_NEVER,  # a stage that holds back reads nothing; the watchdog knows a loop that stands
        broker_check_crcs=connection.check_crcs,
        broker_commit_interval=1.0,  # for the display of lag only
        broker_commit_livelock_soft_timeout=_NEVER,
        stream_processing_timeout=_NEVER,
        broker_max_poll_records=POLL_RECORDS,
        consumer_group_instance_id=f"{options.group}.{options.instance}",
        consumer_max_fetch_size=options.max_fetch_bytes,
        stream_buffer_maxsize=STREAM_QUEUE,
        stream_wait_empty=False,  # with acknowledgements held back a stop took 32 s
        stream_recovery_delay=0.0,
        topic_allow_declare=False,
        topic_disable_leader=True,  # Faust's leader topic fails on replicated clusters
        store="memory://",
        key_serializer="raw",  # with Faust's json a message that is none never reaches the agent
        value_serializer="raw",
        web_enabled=False,
        autodiscover=False,
    )
    app.consumer_settings = ConsumerSettings(options.read_committed, connection.fetch_wait_ms)
    return app


#: Messages in Faust's queue between consumer and agent. Ours drains it at once and holds partitions back itself.
STREAM_QUEUE = 1024

Hook = Callable[..., Awaitable[None]]
