"""How one worker of a stage presents itself to Kafka."""

from dataclasses import dataclass


@dataclass(frozen=True)
class StageOptions:
    """Names and limits of one worker.

    Attributes
    ----------
    name : str
        The stage (`learner`, `explainer`, `aggregator`); prefix and name are the consumer group.
    instance : str
        Fixed name of this worker within its group. A worker that was killed and comes back under the same name goes
        on after about a second and costs the others no rebalance; under another name its partitions wait for the
        session to time out (18.6 s were measured).
    prefix : str
        Begins every group, transactional id and topic of ours.
    read_committed : bool
        Whether records of aborted and of open transactions stay unseen.
    session_timeout, heartbeat_interval : float
        Seconds. A worker that is gone for longer than the first loses its partitions. 6 s is the least a Kafka
        accepts by default; 20 s lets a process stand still (a long pickle, a suspended laptop) without being
        replaced. The mock cluster lets a member wait for the session before it may join again: set 6 and 1 there.
    max_fetch_bytes : int
        At most this much of a partition is read ahead.
    queue_messages : int
        A partition is read no further while so many messages of it wait for the stage.
    take_over_timeout : float
        Seconds within which the state must be read, or the worker ends; while brokers are away it is tried again.
    commit_deadline : float
        Seconds after which what was not written is written anew. It is waited for without limit while brokers are
        away or too few; the worker ends when that would not help (a topic that is missing).
    look_interval : float
        Seconds between two questions to the brokers about topics and group: see `group`.
    debug : bool
        Whether the log holds what the libraries say.
    """

    name: str
    instance: str
    prefix: str = "glasstream."
    read_committed: bool = True
    session_timeout: float = 20.0
    heartbeat_interval: float = 3.0
    max_fetch_bytes: int = 4 * 1024 * 1024
    queue_messages: int = 64
    take_over_timeout: float = 30.0
    commit_deadline: float = 30.0
    look_interval: float = 10.0
    debug: bool = False

    @property
    def group(self) -> str:
        """Return the name of the consumer group."""
        return f"{self.prefix}{self.name}"

    def transactional_id(self, partition: int) -> str:
        """Return the name that only the owner of `partition` may write under."""
        return f"{self.group}.{partition}"
