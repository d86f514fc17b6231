"""`predictions`: the model's prediction for each accepted event before it learned the label, and its running
performance.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec
import numpy as np
import orjson

from glasstream_topics.contract import Natural, Positive, Topic, stream_key
from glasstream_topics.frames import Array
from glasstream_topics.notebook import Shown
from glasstream_topics.record import OPTIONS, Json, encode_record

NAMED: Final = 100
"""Largest number of classes in a record, so that a record stays below the broker's size limit."""


class Metric(msgspec.Struct, frozen=True):
    """A running metric.

    Attributes
    ----------
    name
        name of the metric.
    value
        its value, this event included; null before the first event that has one.
    """

    name: str
    value: float | None


class Others(msgspec.Struct, frozen=True):
    """The classes that a record does not name.

    Attributes
    ----------
    classes
        their number.
    probability
        sum of their probabilities.
    """

    classes: Positive
    probability: float


class Expected(msgspec.Struct, frozen=True, omit_defaults=True):
    """An expected mean, its interval of 95 %, and the mean by the labels.

    Attributes
    ----------
    value
        the expected mean.
    low, high
        ends of its interval.
    realised
        mean of the events whose labels came; absent in the first record of a window.
    inside
        whether it lies inside the interval of these events; absent if less than half of the labels came.
    """

    value: float
    low: float
    high: float
    realised: float | None = None
    inside: bool | None = None


class Estimate(msgspec.Struct, frozen=True, omit_defaults=True):
    """Expected performance on a window of events that came without a label.

    Attributes
    ----------
    first, last
        `seq` of its first and of its last event. Events between them that came with a label are not part of it.
    events
        number of its events.
    accuracy, loss
        what is expected of the share of right predictions, and of the mean loss.
    labels
        number of labels that came; absent as long as one of its events waits.
    settled
        number of windows so far that were compared with their labels.
    accuracy_inside, loss_inside
        number of these windows whose accuracy and whose loss lay inside the interval.
    """

    first: Natural
    last: Natural
    events: Positive
    accuracy: Expected
    loss: Expected
    labels: Natural | None = None
    settled: Natural = 0
    accuracy_inside: Natural = 0
    loss_inside: Natural = 0


class Prediction(Shown, msgspec.Struct, frozen=True, omit_defaults=True):
    """One event's prediction.

    Attributes
    ----------
    epoch
        epoch of the stream, from 0 on; it rises when the stream starts over.
    stream
        name of the stream: the key of its messages.
    seq
        number of the event among the accepted events of its stream in this epoch.
    id
        id of the event, or partition-offset-index of its place in `events` if it has none.
    prediction
        class or number; null as long as the model predicts nothing.
    probabilities
        probability of each class; null for regression. If there are more than 100 classes, the 100 most probable ones;
        see `others`.
    target
        class or number; null for an event without a label. A late label changes no record.
    loss
        loss of this prediction; null without prediction or target.
    loss_name
        name of the loss.
    metric
        running metric over all labels up to this event, late labels included.
    model_version
        number of rows that the model had learned; of a model that learns nothing, the number of models before it.
    others
        the classes that `probabilities` leaves out; absent if it names all of them.
    ts
        time of the event in milliseconds, as its sender gave it; absent if the event has none.
    estimates
        expected performance on events without a label: windows that are full since the record before, and windows that
        no longer wait for labels; absent if there is none.
    """

    schema_version: Literal[1]
    epoch: Natural
    stream: str
    seq: Natural
    id: str
    prediction: str | float | None
    probabilities: dict[str, float] | None
    target: str | float | None
    loss: float | None
    loss_name: str
    metric: Metric
    model_version: Natural
    others: Others | None = None
    ts: int | None = None
    estimates: list[Estimate] | None = None


JSON: Final = Json("predictions", Prediction)
decode: Final = JSON.decode
key: Final = stream_key

TOPIC: Final = Topic(
    name="predictions",
    title="Prediction",
    holds="one accepted event's prediction, made before its label was learned, with loss and running metric",
    written_by=("learner",),
    json=JSON,
)


class Row(NamedTuple):
    """One event's prediction for `Encoder.encode_all`; see `Encoder.encode`."""

    seq: int
    id: str
    prediction: str | float | None
    probabilities: Mapping[str, float] | None
    target: str | float | None
    loss: float | None
    metric_name: str
    metric_value: float | None
    model_version: int
    ts: int | None = None
    estimates: list[Estimate] | None = None


class Columns(NamedTuple):
    """Predictions for `Encoder.encode_block`, as columns; see `Encoder.encode`."""

    seqs: Sequence[int]
    ids: Sequence[str]
    classes: Sequence[str]
    """Names of all classes; empty for numbers."""
    predictions: Array
    """int64[n]: predicted classes; float64[n]: predicted numbers."""
    probabilities: Array | None
    """float64[n, classes]; at most `NAMED` classes."""
    targets: Array
    """int64[n]: classes, -1 for none; float64[n]: numbers, NaN for none."""
    losses: Array
    """float64[n], NaN for none."""
    metrics: Array
    """float64[n]: values of the running metric, NaN for none."""
    model_versions: Sequence[int]
    times: Sequence[int | None]


class _Form(NamedTuple):
    """What records that are written together have in common."""

    loss_name: str
    metric_name: str
    classes: Sequence[str] | None
    """The classes in the order of the record; None without probabilities."""

    def between(self) -> list[bytes]:
        """Return the bytes before each field from `id` on."""
        names = [orjson.dumps(name) + b":" for name in self.classes or ()]
        before = [b',"probabilities":{' + names[0], *(b"," + name for name in names[1:])] if names else []
        nothing = b"}" if names else b',"probabilities":null' if self.classes is None else b',"probabilities":{}'
        loss_name, metric_name = orjson.dumps(self.loss_name), orjson.dumps(self.metric_name)
        metric = b',"loss_name":%b,"metric":{"name":%b,"value":' % (loss_name, metric_name)
        fields = [b',"id":', b',"prediction":', *before, nothing + b',"target":', b',"loss":', metric]
        return [*fields, b'},"model_version":', b""]


class Encoder:
    """Encoder for the predictions of one stream.

    This is on the hot path: types are not checked, and fields that all records share are filled in once.

    >>> encoder = Encoder(epoch=0, stream="meters")
    >>> record = encoder.encode(
    ...     seq=0, id="a", prediction="up", probabilities={"up": 0.75, "down": 0.25}, target=None, loss=None,
    ...     loss_name="zero_one", metric_name="accuracy", metric_value=None, model_version=7,
    ... )
    >>> decode(record).probabilities
    {'down': 0.25, 'up': 0.75}
    """

    def __init__(self, epoch: int, stream: str) -> None:
        head = {"schema_version": JSON.versions[-1], "epoch": epoch, "stream": stream}
        self._head = orjson.dumps(head)[:-1]
        self._metric: dict[str, object] = {"name": "", "value": None}
        self._record: dict[str, object] = {"schema_version": JSON.versions[-1], "epoch": epoch, "stream": stream}
        self._record |= dict.fromkeys(Prediction.__struct_fields__[len(self._record) : -3])
        self._record["metric"] = self._metric

    def encode_all(self, rows: Sequence[Row], loss_name: str) -> list[bytes]:
        """Return the bytes of many predictions: for each row what `encode` returns, at a fraction of its cost.

        The values of each field are written in one call, and put between the bytes that the records have in common.

        Raises
        ------
        RecordError
            NaN, an infinity, or a value that JSON cannot hold.
        """
        try:
            records = self._written_together(rows, loss_name) if len(rows) > 1 else None
        except orjson.JSONEncodeError:
            records = None  # the record says which one it is
        if records is None:
            return [self._encode_row(row, loss_name) for row in rows]
        for place, row in enumerate(rows):
            if row.estimates:
                records[place] = self._encode_row(row, loss_name)
        return records

    def _written_together(self, rows: Sequence[Row], loss_name: str) -> list[bytes] | None:
        """Return the records without their estimates; None if they differ too much to be written together."""
        seqs, names, given, votes, wanted, costs, metric_names, values, versions, times, _ = zip(*rows, strict=True)
        written = [_written(one) for one in (names, given, wanted, costs, values)]
        classes: list[str] = []
        probabilities: list[bytes] | None = []
        if votes.count(None) != len(votes):
            if None in votes or not 0 < len(votes[0]) <= NAMED:
                return None
            classes = sorted(votes[0])
            if any(len(one) != len(classes) for one in votes):
                return None
            try:
                probabilities = _written([one[name] for one in votes for name in classes])
            except KeyError:
                return None
        if probabilities is None or any(one is None for one in written) or len({*metric_names}) > 1:
            return None
        several = [probabilities[place :: len(classes)] for place in range(len(classes))]
        form = _Form(loss_name, metric_names[0], classes if votes[0] is not None else None)
        ids, labels, targets, losses, metrics = (one or [] for one in written)
        return self._assembled(form, seqs, ids, labels, several, targets, losses, metrics, versions, times)

    def encode_block(self, block: Columns, loss_name: str, metric_name: str) -> list[bytes]:
        """Return the bytes of many predictions, given as columns: those that `encode` returns for each.

        The numbers must be finite, except that NaN stands for none in `targets`, `losses` and `metrics`.
        """
        if not block.seqs:
            return []
        labels, targets, several = _numbers(block.predictions), _numbers(block.targets), list[list[bytes]]()
        order = sorted(range(len(block.classes)), key=block.classes.__getitem__)
        if block.classes:
            texts = [*map(orjson.dumps, block.classes), b"null"]  # -1 is the last one
            labels, targets = ([texts[one] for one in column.tolist()] for column in (block.predictions, block.targets))
        if block.probabilities is not None:
            votes = _numbers(block.probabilities[:, order].ravel())
            several = [votes[place :: len(order)] for place in range(len(order))]
        form = _Form(
            loss_name, metric_name, None if block.probabilities is None else [block.classes[one] for one in order]
        )
        ids, losses, metrics = _texts(block.ids), _numbers(block.losses), _numbers(block.metrics)
        return self._assembled(
            form, block.seqs, ids, labels, several, targets, losses, metrics, block.model_versions, block.times
        )

    def _assembled(
        self,
        form: _Form,
        seqs: Sequence[int],
        ids: list[bytes],
        labels: list[bytes],
        probabilities: Sequence[list[bytes]],
        targets: list[bytes],
        losses: list[bytes],
        metrics: list[bytes],
        versions: Sequence[int],
        times: Sequence[int | None],
    ) -> list[bytes]:
        """Return records from the JSON of their fields, with the bytes between them that all have in common."""
        ends = [b"" if ts is None else b',"ts":%d' % ts for ts in times]
        columns = [_integers(seqs), ids, labels, *probabilities, targets, losses, metrics, _integers(versions), ends]
        between = [self._head + b',"seq":', *form.between(), b"}\n"]
        width, count = 2 * len(columns) + 1, len(seqs)
        pieces = [b""] * (width * count)
        for place, column in enumerate(columns):
            pieces[2 * place :: width] = [between[place]] * count
            pieces[2 * place + 1 :: width] = column
        pieces[width - 1 :: width] = [between[-1]] * count
        return b"".join(pieces)[:-1].split(b"\n")  # JSON has no newline within a text

    def _encode_row(self, row: Row, loss_name: str) -> bytes:
        return self.encode(**row._asdict(), loss_name=loss_name)

    def encode(
        self,
        *,
        seq: int,
        id: str,
        prediction: str | float | None,
        probabilities: Mapping[str, float] | None,
        target: str | float | None,
        loss: float | None,
        loss_name: str,
        metric_name: str,
        metric_value: float | None,
        model_version: int,
        ts: int | None = None,
        estimates: list[Estimate] | None = None,
    ) -> bytes:
        """Return the bytes of one event's prediction, with classes sorted by name.

        Raises
        ------
        RecordError
            NaN, an infinity, or a value that JSON cannot hold.
        """
        nulls = 0
        others: Others | None = None
        if probabilities is None:
            nulls = 1
        else:
            if len(probabilities) > NAMED:
                probabilities, others = most_probable(probabilities)
            classes = sorted(probabilities)
            if list(probabilities) != classes:
                probabilities = {name: probabilities[name] for name in classes}
        if loss is None:
            nulls += 1 + (prediction is None) + (target is None) + (metric_value is None)
        record, metric = self._record, self._metric
        record["seq"] = seq
        record["id"] = id
        record["prediction"] = prediction
        record["probabilities"] = probabilities
        record["target"] = target
        record["loss"] = loss
        record["loss_name"] = loss_name
        record["model_version"] = model_version
        metric["name"] = metric_name
        metric["value"] = metric_value
        if others is not None:
            record = {**record, "others": others}
        if ts is not None:
            record = {**record, "ts": ts}
        if estimates:
            record = {**record, "estimates": estimates}
        return encode_record("predictions", record, nulls)


def _written(values: Sequence[str | float | None]) -> list[bytes] | None:
    """Return each text, number or None as JSON; None if there are texts and numbers, or a number that JSON has not."""
    kinds = {*map(type, values)}
    if kinds <= _TEXT_OR_NONE:
        if type(None) not in kinds:
            return _texts(values)  # type: ignore[arg-type]  # all are texts
        known = {one: orjson.dumps(one) for one in {*values}}
        return [*map(known.__getitem__, values)]
    if str in kinds:
        return None
    numbers = [one for one in values if one is not None]
    found = orjson.dumps(numbers, None, OPTIONS)[1:-1].split(b",")
    if len(found) != len(numbers) or b"null" in found:
        return None
    if len(numbers) == len(values):
        return found
    each = iter(found)
    return [b"null" if one is None else next(each) for one in values]


def _texts(values: Sequence[str]) -> list[bytes]:
    together = orjson.dumps(values)
    if b'\\"' in together:  # a quote in a text could look like the end of the text
        return [*map(orjson.dumps, values)]
    return [b'"%b"' % one for one in together[2:-2].split(b'","')]


def _numbers(values: Array) -> list[bytes]:
    """Return each number as JSON, and NaN as null."""
    return orjson.dumps(np.ascontiguousarray(values), None, OPTIONS)[1:-1].split(b",")


def _integers(values: Sequence[int]) -> list[bytes]:
    return orjson.dumps([*values])[1:-1].split(b",")


_TEXT_OR_NONE: Final = {str, type(None)}


def most_probable(probabilities: Mapping[str, float]) -> tuple[dict[str, float], Others]:
    """Return the `NAMED` most probable classes and a summary of the others. Ties are resolved by name.

    >>> named, others = most_probable({f"{number:03}": 0.0 if number else 1.0 for number in range(150)})
    >>> len(named), max(named), others
    (100, '099', Others(classes=50, probability=0.0))
    """
    ranked = sorted(probabilities, key=lambda name: (-probabilities[name], name))
    left_out = ranked[NAMED:]
    rest = math.fsum(probabilities[name] for name in left_out)
    return {name: probabilities[name] for name in ranked[:NAMED]}, Others(len(left_out), rest)


def encode(*, epoch: int, stream: str, **event: Any) -> bytes:
    """Return the bytes of a single prediction; see `Encoder.encode`."""
    return Encoder(epoch, stream).encode(**event)
