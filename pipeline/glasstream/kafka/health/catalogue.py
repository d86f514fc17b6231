"""Catalogue of all metrics of the stages: name, kind, labels, meaning. Only these metrics are published."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from heapq import nlargest
from typing import Final, Literal, NamedTuple, TypeVar

T = TypeVar("T")

MOST_STREAMS: Final = 200
"""Streams of a partition that have metrics of their own. Prometheus keeps a dozen series for each of them."""


def shown(streams: Mapping[str, T], events: Callable[[T], int]) -> list[str]:
    """Return the streams that have metrics of their own: those with the most events, in their order.

    >>> shown({"a": 3, "b": 1}, lambda one: one), len(shown(dict.fromkeys(map(str, range(5_000)), 1), lambda one: one))
    (['a', 'b'], 200)
    """
    if len(streams) <= MOST_STREAMS:
        return list(streams)
    chosen = set(nlargest(MOST_STREAMS, streams, lambda name: (events(streams[name]), name)))
    return [name for name in streams if name in chosen]


@dataclass(frozen=True, slots=True)
class Metric:
    """Definition of a metric.

    Attributes
    ----------
    name
        Name in Prometheus, without the suffix `_total` of counters.
    kind
        Counter or gauge. A counter only grows while a worker lives; a gauge goes up and down.
    help
        Meaning and unit.
    labels
        Names of the labels that distinguish its values.
    """

    name: str
    kind: Literal["counter", "gauge"]
    help: str
    labels: tuple[str, ...] = ()


class Sample(NamedTuple):
    """One value of a metric."""

    metric: Metric
    value: float
    labels: tuple[str, ...] = ()


def _counter(name: str, text: str, *labels: str) -> Metric:
    return Metric(f"glasstream_{name}", "counter", text, labels)


def _gauge(name: str, text: str, *labels: str) -> Metric:
    return Metric(f"glasstream_{name}", "gauge", text, labels)


# Every stage.
READY: Final = _gauge("ready", "1 while `/readyz` answers that the worker is ready, else 0.")
STARTED: Final = _gauge("start_time_seconds", "When the worker started, in seconds since 1970.")
INPUT_OFFSET: Final = _gauge("input_offset", "Offset of the next message to process.", "partition")
INPUT_LAG: Final = _gauge("input_lag", "Messages of the input that are not processed yet.", "partition")
INPUT_WAIT: Final = _gauge(
    "input_wait_seconds",
    "Seconds that the oldest message of the input which is not processed yet has waited, as far as this worker knows.",
    "partition",
)
READ_AGAIN: Final = _counter(
    "read_again", "Number of times messages from the broker were lost in transit and read again."
)
STALLED: Final = _gauge("stalled", "1 while a partition makes no progress and `/readyz` says why.", "partition")
DAMAGED: Final = _counter(
    "damaged_messages",
    "Damaged messages that this worker skipped; explainers set no partition.",
    "partition",
)
STREAMS_LEFT_OUT: Final = _gauge(
    "streams_left_out",
    "Streams that have no metrics of their own here, because the partition has more than 200 and others more events.",
    "partition",
)
STEP_SECONDS: Final = _counter("step_seconds", "Seconds spent in each step of the stage.", "step")
BOUND_HIT: Final = _counter(
    "bound_hits", "Number of times this worker reached a configured limit, by setting.", "bound", "partition"
)

# Learner.
STREAMS: Final = _gauge("streams", "Streams that the learner learns.", "partition")
STREAMS_FORGOTTEN: Final = _counter(
    "streams_forgotten",
    "Idle streams with few events that gave up their places to new streams (limits.streams).",
    "partition",
)
EVENTS: Final = _counter("events", "Events accepted since the stream began.", "stream")
ROWS: Final = _counter("rows_learned", "Rows (labelled events) learned since the stream began.", "stream")
UNLABELLED: Final = _counter("unlabelled_events", "Events without a label since this worker took the stream.", "stream")
LABELS_JOINED: Final = _counter(
    "labels_joined", "Labels that came after their events, since the stream began.", "stream"
)
LABELS_MISSED: Final = _counter(
    "labels_missed", "Events whose labels did not come within labels.window, since the stream began.", "stream"
)
EVENTS_WAITING: Final = _gauge("events_waiting_for_labels", "Events that wait for their labels.", "stream")
DEAD_LETTERS: Final = _counter(
    "dead_letters",
    "Messages that this worker rejected, in whole or in part, by the first reason.",
    "reason",
    "partition",
)
SCORE: Final = _gauge("score", "Prequential accuracy, or mean absolute error.", "stream", "metric")
MODEL_VERSION: Final = _gauge("model_version", "Rows that the model in use for explanations had learned.", "stream")
ROWS_AHEAD: Final = _gauge("rows_ahead", "Rows learned that are not aggregated yet.", "stream")
RETYPED: Final = _counter(
    "retyped_values", "Values whose kind differs from their feature's, treated as absent.", "stream"
)
OVER_LIMIT: Final = _counter("over_limit_values", "Values beyond limits.*, treated as absent.", "stream")
SNAPSHOT_BYTES: Final = _gauge(
    "snapshot_bytes", "Bytes of snapshots that rows not aggregated yet may need.", "partition"
)
REQUEST_BYTES: Final = _gauge("request_bytes", "Bytes of blocks that are not aggregated yet.", "partition")
WAITING: Final = _gauge("holding_back", "1 while the learner waits for the aggregator.", "partition")
CHECKPOINT_AGE: Final = _gauge("checkpoint_age_seconds", "Seconds since the newest checkpoint.", "stream")
CHECKPOINT_BYTES: Final = _gauge("checkpoint_bytes", "Size of the newest checkpoint.", "stream")
CHECKPOINTS: Final = _counter("checkpoints", "Checkpoints made by this worker.", "stream")

# Explainer.
BLOCKS: Final = _counter(
    "blocks", "Blocks handled by this worker: ok, failed, or stale (aggregated already).", "outcome"
)
EXPLAINED: Final = _counter("rows_explained", "Rows explained by this worker.")
FAILED: Final = _counter("rows_failed", "Rows on which the model raised an error.")
SNAPSHOTS_HELD: Final = _gauge("snapshots_held_bytes", "Bytes of snapshots in memory.")
SNAPSHOTS_EVICTED: Final = _counter("snapshots_evicted", "Snapshots dropped to stay within the memory limit.")

# Aggregator.
AGGREGATED: Final = _counter("rows_aggregated", "Rows aggregated since the stream began.", "stream")
UNEXPLAINED: Final = _counter(
    "rows_unexplained", "Rows aggregated that could not be explained, since the stream began.", "stream"
)
COVERAGE: Final = _gauge(
    "coverage", "Explained rows divided by rows that could have been explained, since the stream began.", "stream"
)
AGGREGATOR_WAITING: Final = _gauge("blocks_waiting", "Blocks that wait for earlier rows.", "stream")
OVER: Final = _counter("blocks_over", "Blocks from an earlier epoch of their stream, which are skipped.", "partition")
RECORDS: Final = _counter("records", "Records written to a public topic by this worker.", "topic", "partition")
DRIFT_ALARMS: Final = _counter("drift_alarms", "Drift alarms raised by this worker.", "stream")
INCIDENT: Final = _gauge("incident_open", "1 while an incident of a stream is open.", "stream", "verdict")

# Novelty detector.
WATCHED: Final = _counter("events_watched", "Events accepted since the stream began.", "stream")
SCORED: Final = _counter(
    "events_scored", "Events scored since the stream began; scoring starts with the first map.", "stream"
)
FLAGGED: Final = _counter("events_flagged", "Events flagged since the stream began.", "stream")
NOVELTY_ALARMS: Final = _counter("novelty_alarms", "Alarms: more or fewer events than before are novel.", "stream")
MAP_VERSION: Final = _gauge("map_version", "seq of the newest event in the window of the current map.", "stream")
MAPS: Final = _counter("maps", "Maps put into service since the stream began.", "stream")
NO_MAP: Final = _counter("windows_without_map", "Windows to which no map could be fitted.", "stream")
MAPS_AWAITED: Final = _counter("maps_awaited", "Number of times scoring waited for a map.", "partition")
MAP_WAIT: Final = _counter("map_wait_seconds", "Seconds that scoring has waited for maps.", "partition")
MAP_WAITING: Final = _gauge("waiting_for_map", "1 while scoring waits for a map.", "partition")
ANCHOR_BYTES: Final = _counter("anchor_bytes", "Bytes of anchors written.", "partition")

# Forwarder of labels.
LABELS_MOVED: Final = _counter("labels_moved", "Label messages that this worker moved to `events`.", "partition")

# Intake.
INTAKE_MESSAGES: Final = _counter(
    "intake_messages", "Messages of other topics that this worker processed.", "topic", "partition"
)
INTAKE_EVENTS: Final = _counter(
    "intake_events", "Events and labels that this worker wrote to `events`, and documents that it skipped.", "kind"
)

# Notifier.
POSTS: Final = _counter(
    "webhook_posts", "Requests of this worker to the webhook: ok, refused (3xx, most 4xx), or failed.", "outcome"
)
INCIDENTS_SKIPPED: Final = _counter(
    "incidents_skipped",
    "Incidents that this worker did not deliver, because the webhook refused them `notify.attempts` times.",
)

ALL: Final[tuple[Metric, ...]] = tuple(value for value in list(globals().values()) if isinstance(value, Metric))
