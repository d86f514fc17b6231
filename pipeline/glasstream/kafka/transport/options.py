"""Options of one worker of a stage towards Kafka."""

import os
import uuid
from dataclasses import dataclass
from functools import cache

from glasstream.flow.settings import Settings


@dataclass(frozen=True)
class StageOptions:
    """Names and limits of one worker.

    Attributes
    ----------
    name : str
        Name of the stage (`learner`, `explainer`, `aggregator`). Prefix and name form the consumer group.
    instance : str
        Fixed name of this worker within its group. A killed worker that returns under the same name continues after
        about a second, without a rebalance for the others. Under another name its partitions wait for the session to
        time out (measured: 18.6 s).
    fixed : bool
        Whether the instance keeps its name after a restart.
    prefix : str
        Prefix of all our groups, transactional ids and topics.
    read_committed : bool
        Whether to skip records of aborted and open transactions.
    session_timeout, heartbeat_interval : float
        Seconds. A worker that is silent for longer than the session timeout loses its partitions. Kafka accepts no less
        than 6 s by default. With 20 s a process may pause (a long pickle, a suspended laptop) without being replaced.
        The mock cluster makes a member wait for the session before it may join again: use 6 and 1 there.
    max_fetch_bytes : int
        Largest number of bytes of a partition to fetch at once.
    queue_messages, queue_bytes : int
        Numbers of waiting messages and of their bytes at which the stage stops reading a partition.
    take_over_timeout : float
        Seconds within which the state must be read, or the worker ends. While brokers are down, the worker retries.
    commit_deadline : float
        Seconds after which unwritten records are written again. The worker waits without limit while brokers are down
        or too few. It ends if waiting would not help, for example if a topic is missing.
    look_interval : float
        Seconds between two queries of the brokers about topics and group: see `group`.
    debug : bool
        Whether to log the messages of the libraries.
    """

    name: str
    instance: str
    prefix: str = "glasstream."
    read_committed: bool = True
    session_timeout: float = 20.0
    heartbeat_interval: float = 3.0
    max_fetch_bytes: int = 1024 * 1024
    queue_messages: int = 4_000
    queue_bytes: int = 8 * 1024 * 1024
    take_over_timeout: float = 30.0
    commit_deadline: float = 30.0
    look_interval: float = 10.0
    debug: bool = False
    fixed: bool = False

    @property
    def group(self) -> str:
        """Return the name of the consumer group."""
        return f"{self.prefix}{self.name}"

    def transactional_id(self, partition: int) -> str:
        """Return the transactional id under which only the owner of `partition` may write."""
        return f"{self.group}.{partition}"


def options(stage: str, settings: Settings) -> StageOptions:
    """Return the Kafka options for a worker of a stage."""
    return StageOptions(
        name=stage,
        instance=settings.worker.instance or _instance(os.getpid()),
        prefix=settings.prefix,
        session_timeout=settings.worker.session_seconds,
        heartbeat_interval=settings.worker.heartbeat_seconds,
        debug=settings.worker.debug,
        fixed=settings.worker.instance is not None,
    )


@cache
def _instance(process: int) -> str:
    """Return a name for the workers of a process, the same at every call; a fork of it has another."""
    return uuid.uuid4().hex[:12]
