"""The Faust application of a stage, configured so that it loses nothing and starts nothing unexpected."""

from collections.abc import Callable, Mapping
from typing import Any

import faust
from faust.app import base
from faust.types import TP

from glasstream.kafka.transport.connection import Connection
from glasstream.kafka.transport.consumer import Assignor, Positions, Transport
from glasstream.kafka.transport.options import StageOptions

#: Seconds; longer than any run. Faust warns when a stream stands still, which ours do on purpose (hold-back).
_NEVER = 10.0**9


class _Boot(base.BootStrategy):
    """Boot strategy without a web server: Faust would bind 0.0.0.0:6066 whatever `web_enabled` says."""

    enable_web = False


class StreamApp(faust.App):
    """Faust application that asks its stage where the partitions begin.

    Attributes
    ----------
    positions, seeking : callable
        Functions that the stage sets. The first returns where to read each partition of the input. The application
        calls the second with these positions before it seeks.
    out_of_range : callable
        Function that the stage sets. The application calls it when the log does not have the next offset of a
        partition.
    failed : callable
        Function that the stage sets. The application calls it with the error that ends the reading.
    reading : tuple
        How the consumer connects, and its options.
    """

    BootStrategy = _Boot

    reading: tuple[Connection, StageOptions]
    positions: Positions
    seeking: Callable[[Mapping[TP, int]], None]
    out_of_range: Callable[[TP, int], None]
    failed: Callable[[Exception], None]

    def _new_transport(self) -> Transport:
        return Transport(self.conf.broker_consumer, self)

    def FlowControlQueue(self, maxsize: int | None = None, *, clear_on_resume: bool = False) -> Any:
        """Return a queue that a resume does not empty.

        After a rebalance Faust seeks and resumes the partitions first, and then the flow. Resuming the flow empties
        every queue made with `clear_on_resume`, so messages fetched in between were lost (16 to 20 gaps in 14
        restarts). Stale batches carry another generation, by which the stage drops them.
        """
        return super().FlowControlQueue(maxsize, clear_on_resume=False)

    def _create_directories(self) -> None:
        """Create no directories, because a stage keeps nothing on disk."""


def make_app(connection: Connection, options: StageOptions) -> StreamApp:
    """Return the application of one worker, without connecting it."""
    app = StreamApp(
        options.group,
        broker_session_timeout=options.session_timeout,
        broker_commit_interval=1.0,  # for the display of lag only
        broker_commit_livelock_soft_timeout=_NEVER,
        stream_processing_timeout=_NEVER,
        stream_buffer_maxsize=STREAM_QUEUE,
        stream_wait_empty=False,  # a stop with acknowledgements held back took 32 s otherwise
        stream_recovery_delay=0.0,
        topic_allow_declare=False,
        topic_disable_leader=True,  # Faust's leader topic fails on replicated clusters
        PartitionAssignor=Assignor,
        store="memory://",
        key_serializer="raw",  # Faust's json decoder would drop malformed messages before the agent
        value_serializer="raw",
        web_enabled=False,
        autodiscover=False,
    )
    app.reading = connection, options
    return app


#: Number of batches in Faust's queue between consumer and agent. Our agents drain it at once and hold partitions back
#: themselves.
STREAM_QUEUE = 1024
