"""History of one stream for the page: its newest epoch, from records of the public topics in any order of topics."""

from array import array
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import nan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from glasstream.app.page.explained import Explained
from glasstream.app.page.history import Bins, Thinned
from glasstream.app.page.incidents import Incidents
from glasstream.app.page.watching import watching_part
from glasstream.detect.baselines import Baselines
from glasstream.detect.groups.settings import MOST_ATTRIBUTES
from glasstream_topics.attributions import Attribution
from glasstream_topics.comparisons import Comparison
from glasstream_topics.drift import Drift
from glasstream_topics.effects import Effect
from glasstream_topics.groups import Groups
from glasstream_topics.importance import Feature, Importance, Interval
from glasstream_topics.incidents import Incident
from glasstream_topics.novelty import Novelty
from glasstream_topics.predictions import Prediction
from glasstream_topics.segments import Segments
from glasstream_topics.watching import Watching

Record = (
    Importance | Effect | Drift | Incident | Watching | Segments | Novelty | Prediction | Attribution | Groups
    | Comparison
)  # fmt: skip

_CELLS = 400_000
"""Largest count of numbers kept for one method. With many features, fewer records are kept."""
_LEAST_POINTS = 40
_OLDER, _NEWEST = 400, 200
_OLDER_CURVES, _NEWEST_CURVES = 40, 20
_BIN_EVENTS, _BINS = 100, 240
RECENT = 1_000
"""Number of events that count as recent."""
_METHODS = 8
_ALARMS = 200
_FLAGGED = 12
_COMPARED = 8
"""Largest number of comparisons with other streams."""
_NUMBERS = 3
"""Count of numbers per feature: value, low, high."""


@dataclass(slots=True)
class Point:
    """Importance record, reduced to what the page draws.

    `numbers` holds value, low and high of each feature in the order of `Method.features`; NaN for missing numbers.
    """

    row: int
    seq: int
    n: int
    coverage: float
    lag: int
    model_version: int
    staleness: float | None
    numbers: "array[float]"


@dataclass(slots=True)
class Curve:
    """Effect curve."""

    row: int
    seq: int
    n: int
    importance: float
    grid: list[float | str | bool]
    curve: list[float]
    margin: list[float | None]


@dataclass(slots=True)
class Method:
    """Importance history of one method."""

    most_features: int
    features: dict[str, int] = field(default_factory=dict)
    """Position of each feature in the points. New features come last."""
    left_out: int = 0
    """Number of values dropped because their features exceed `most_features`."""
    points: Thinned[Point] = field(default_factory=lambda: Thinned(_OLDER, _NEWEST))
    newest: dict[str, Feature] = field(default_factory=dict)
    interval: Interval = Interval(None, None)  # noqa: RUF009 - frozen
    loss: str = ""
    alpha: float = 0.0
    last: Point | None = None
    totals: tuple[float | None, float | None, float | None] = (None, None, None)
    """Loss of the mean prediction, loss of the model, and their difference (iSAGE)."""

    def take(self, record: Importance) -> bool:
        """Add a record, and return False if it is not newer than the last one."""
        if self.last is not None and record.row <= self.last.row:
            return False
        for name in record.features:
            if name not in self.features:
                if len(self.features) >= self.most_features:
                    self.left_out += 1
                    continue
                self.features[name] = len(self.features)
        numbers = array("d", [nan]) * (_NUMBERS * len(self.features))
        for name, one in record.features.items():
            at = self.features.get(name)
            if at is None:
                continue
            at *= _NUMBERS
            numbers[at] = one.value
            if one.low is not None and one.high is not None:
                numbers[at + 1], numbers[at + 2] = one.low, one.high
        point = Point(
            record.row,
            record.seq,
            record.n,
            record.coverage,
            record.lag,
            record.model_version,
            record.staleness,
            numbers,
        )
        most = max(_LEAST_POINTS, _CELLS // max(1, len(numbers)))
        self.points.limit(min(_OLDER, most * 2 // 3), min(_NEWEST, most // 3))
        self.points.add(point)
        self.last, self.newest = point, record.features
        self.interval, self.loss, self.alpha = record.interval, record.loss, record.alpha
        self.totals = (record.marginal_loss, record.model_loss, record.total)
        return True

    def table(self, points: Iterable[Point]) -> NDArray[np.float64]:
        """Return the points as an array (points, features, 3) of value, low and high; NaN for a missing feature or
        interval.
        """
        rows = list(points)
        table = np.full((len(rows), len(self.features) * _NUMBERS), nan)
        for row, point in zip(table, rows, strict=True):
            row[: len(point.numbers)] = point.numbers
        return table.reshape(len(rows), len(self.features), _NUMBERS)

    def leading(self, most: int) -> list[str]:
        """Return the features whose mean or newest importance is largest, in descending order."""
        if not len(self.points) or not self.features:
            return []
        values = np.nan_to_num(self.table(self.points)[:, :, 0])
        scores = np.maximum(values.mean(axis=0), values[-1])
        names = sorted(self.features, key=lambda name: (-scores[self.features[name]], name))
        return names[:most]


@dataclass(slots=True)
class Quality:
    """Prediction quality of the model."""

    loss_name: str = ""
    metric_name: str = ""
    metric: float | None = None
    events: int = 0
    labelled: int = 0
    bins: Bins = field(default_factory=lambda: Bins(_BIN_EVENTS, _BINS))
    recent: deque[float] = field(default_factory=lambda: deque(maxlen=RECENT))
    baselines: Baselines = field(default_factory=lambda: Baselines(RECENT))
    last_seq: int = -1

    def take(self, record: Prediction) -> bool:
        """Add an event, and return False if it is not newer than the last one."""
        if record.seq <= self.last_seq:
            return False
        self.last_seq = record.seq
        self.events += 1
        self.labelled += record.target is not None
        self.loss_name, self.metric_name = record.loss_name, record.metric.name
        cut = record.others is not None
        self.baselines.add(record.prediction, record.target, record.probabilities, cut=cut)
        if record.metric.value is not None:
            self.metric = record.metric.value
        if record.loss is not None:
            self.recent.append(record.loss)
        self.bins.add(record.seq, record.loss, record.metric.value, record.ts)
        return True


@dataclass(slots=True)
class NoveltyHistory:
    """Share of recent events that the novelty detector flags."""

    events: int = 0
    flagged: int = 0
    bins: Bins = field(default_factory=lambda: Bins(_BIN_EVENTS, _BINS))
    recent: deque[bool] = field(default_factory=lambda: deque(maxlen=RECENT))
    examples: deque[Novelty] = field(default_factory=lambda: deque(maxlen=_FLAGGED))
    alarms: deque[Novelty] = field(default_factory=lambda: deque(maxlen=_ALARMS))
    alarms_total: int = 0
    last: Novelty | None = None

    def take(self, record: Novelty) -> bool:
        """Add an event, and return False if it is not newer than the last one."""
        if self.last is not None and record.seq <= self.last.seq:
            return False
        self.last = record
        self.events += 1
        self.flagged += record.flagged
        self.recent.append(record.flagged)
        self.bins.add(record.seq, float(record.flagged))
        if record.flagged:
            self.examples.append(record)
        if record.alarm is not None:
            self.alarms.append(record)
            self.alarms_total += 1
        return True


class StreamHistory:
    """Bounded history of one stream. Records of an older epoch are skipped; a new epoch replaces the old one.

    Parameters
    ----------
    name
        Name of the stream.
    most_features
        Largest number of features and of effect curves. Further ones are left out.

    Attributes
    ----------
    changes
        Counter that rises with every record.
    newest
        Time at which the newest record of each topic was written, in milliseconds since 1970.
    """

    def __init__(self, name: str, most_features: int) -> None:
        self.name = name
        self._most_features = most_features
        self.changes = 0
        self._begin(-1)

    def _begin(self, epoch: int) -> None:
        self.epoch = epoch
        self.newest: dict[str, int] = {}
        self.quality = Quality()
        self.methods: dict[str, Method] = {}
        self.effects: dict[tuple[str, str | None], Thinned[Curve]] = {}
        self.kinds: dict[str, str] = {}
        self._last_rows: dict[tuple[str, str | None], int] = {}
        self.alarms: deque[Drift] = deque(maxlen=_ALARMS)
        self.alarms_total = 0
        self.incidents = Incidents()
        self.watching: dict[str, Any] | None = None
        self.segments: Segments | None = None
        self.novelty = NoveltyHistory()
        self.explained = Explained()
        self.groups: dict[str, Groups] = {}
        """The newest record of each attribute."""
        self.groups_version = 0
        """Counter that rises with every record of groups."""
        self.comparisons: dict[tuple[str, str, str], Comparison] = {}
        """The newest record of each comparison, by prefix and name of the other stream, and loss."""
        self.comparisons_version = 0
        """Counter that rises with every record of comparisons."""

    def take(self, topic: str, record: Record, written: int) -> None:
        """Add a record of a topic, written at a time in milliseconds since 1970."""
        if record.epoch < self.epoch:
            return
        if record.epoch > self.epoch:
            self._begin(record.epoch)
        if self._add(record):
            self.newest[topic] = max(written, self.newest.get(topic, 0))
            self.changes += 1

    def _add(self, record: Record) -> bool:
        match record:
            case Prediction():
                if not self.quality.take(record):
                    return False
                self.explained.meet(record)
                return True
            case Attribution():
                return self.explained.take(record)
            case Novelty():
                if not self.novelty.take(record):
                    return False
                if record.flagged:
                    self.explained.flag(record.seq)
                return True
            case Effect():
                return self._add_effect(record)
            case Drift():
                return self._add_alarm(record)
            case Incident():
                return self.incidents.take(record)
            case Watching():
                return self._add_watching(record)
            case Segments():
                return self._add_segments(record)
            case Groups():
                return self._add_groups(record)
            case Comparison():
                return self._add_comparison(record)
            case Importance():
                if record.method not in self.methods and len(self.methods) >= _METHODS:
                    return False
                return self.methods.setdefault(record.method, Method(self._most_features)).take(record)

    def _add_effect(self, record: Effect) -> bool:
        key = (record.feature, record.output)
        if key not in self.effects:
            if len(self.effects) >= self._most_features:
                return False
            self.effects[key] = Thinned(_OLDER_CURVES, _NEWEST_CURVES)
        if record.row <= self._last_rows.get(key, -1):
            return False
        self._last_rows[key] = record.row
        self.kinds[record.feature] = record.kind
        self.effects[key].add(
            Curve(record.row, record.seq, record.n, record.importance, record.grid, record.curve, record.margin)
        )
        return True

    def _add_groups(self, record: Groups) -> bool:
        known = self.groups.get(record.attribute)
        if known is None and len(self.groups) >= MOST_ATTRIBUTES:
            return False
        if known is not None and record.total.rows <= known.total.rows:
            return False
        self.groups[record.attribute] = record
        self.groups_version += 1
        return True

    def _add_comparison(self, record: Comparison) -> bool:
        key = record.other.prefix, record.other.stream, record.loss
        known = self.comparisons.get(key)
        if known is None and len(self.comparisons) >= _COMPARED:
            return False
        if known is not None and known.other == record.other and known.start == record.start:
            if record.rows <= known.rows:
                return False
        elif known is not None and record.other.epoch < known.other.epoch:
            return False
        self.comparisons[key] = record
        self.comparisons_version += 1
        return True

    def _add_alarm(self, record: Drift) -> bool:
        if self.alarms and (record.row < self.alarms[-1].row or record in self.alarms):
            return False
        self.alarms.append(record)
        self.alarms_total += 1
        return True

    def _add_segments(self, record: Segments) -> bool:
        if self.segments is not None and record.row <= self.segments.row:
            return False
        self.segments = record
        return True

    def _add_watching(self, record: Watching) -> bool:
        if record.unlabelled or (self.watching is not None and record.row < self.watching["row"]):
            return False
        self.watching = watching_part(record)
        return True

    def outputs(self) -> Mapping[str, list[str | None]]:
        """Return the outputs that have effect curves, by feature."""
        found: dict[str, list[str | None]] = {}
        for feature, output in self.effects:
            found.setdefault(feature, []).append(output)
        return {feature: sorted(found[feature], key=str) for feature in sorted(found)}

    def strongest_effect(self) -> str | None:
        """Return the feature whose newest curve moves the prediction most."""
        newest = {key: list(curves)[-1].importance for key, curves in self.effects.items() if len(curves)}
        return max(newest, key=lambda key: newest[key])[0] if newest else None
