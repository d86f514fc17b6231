"""Laws of the JSON records: they fit their schema, come back as they were, and hold no NaN."""

from collections.abc import Callable
from typing import Any

import jsonschema
import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasstream_topics import events, events_dead, importance, predictions, schema
from glasstream_topics.errors import RecordError
from tests.support.examples import examples
from tests.support.golden_records import GOLDEN, checked_in

finite = st.floats(allow_nan=False, allow_infinity=False)
natural = st.integers(0, 2**53)
text = st.text(max_size=10)


def validator(name: str) -> jsonschema.Draft202012Validator:
    document = orjson.loads((schema.DIRECTORY / f"{name}.json").read_bytes())
    jsonschema.Draft202012Validator.check_schema(document)
    return jsonschema.Draft202012Validator(document)


EVENTS = validator("events.v1")
PREDICTIONS = validator("predictions.v1")
IMPORTANCE = validator("importance.v2")
DEAD = validator("events.dead.v1")


def a_prediction(**changes: Any) -> bytes:
    fields: dict[str, Any] = {
        "epoch": 0,
        "stream": "s",
        "seq": 1,
        "id": "0-0-1",
        "prediction": "a",
        "probabilities": {"b": 0.25, "a": 0.75},
        "target": "b",
        "loss": 1.0,
        "loss_name": "zero_one",
        "metric_name": "accuracy",
        "metric_value": 0.5,
        "model_version": 1,
    }
    return predictions.encode(**{**fields, **changes})


def an_importance(**changes: Any) -> bytes:
    fields: dict[str, Any] = {
        "epoch": 0,
        "stream": "s",
        "row": 99,
        "seq": 99,
        "method": "ipfi",
        "loss": "zero_one",
        "alpha": 0.001,
        "sampling": "geometric",
        "n": 1,
        "coverage": 1.0,
        "model_version": 64,
        "lag": 35,
        "names": ["b", "a"],
        "value": [0.5, 0.25],
        "raw": [0.5, 0.25],
        "variance": [0.0, 1.0],
    }
    return importance.encode(**{**fields, **changes})


@pytest.mark.parametrize("name", ["events.v1", "labels.v1", "predictions.v1", "importance.v2", "effects.v2"])
def test_golden_records_fit_their_schema(name: str) -> None:
    for file in GOLDEN:
        if file.startswith(name + "."):
            validator(name).validate(orjson.loads(checked_in(file)))


@given(
    epoch=natural,
    stream=text,
    seq=natural,
    id=text,
    prediction=st.none() | text | finite,
    probabilities=st.none() | st.dictionaries(text, finite, max_size=4),
    target=st.none() | text | finite,
    loss=st.none() | finite,
    metric_value=st.none() | finite,
)
def test_a_prediction_fits_its_schema_and_comes_back(**fields: Any) -> None:
    data = a_prediction(**fields)
    PREDICTIONS.validate(orjson.loads(data))
    read = predictions.decode(data)
    for name, value in fields.items():
        assert (read.metric.value if name == "metric_value" else getattr(read, name)) == value
    if read.probabilities is not None:
        assert list(read.probabilities) == sorted(read.probabilities)


@given(st.dictionaries(text, st.tuples(finite, finite, finite), min_size=0, max_size=5), st.booleans())
def test_an_importance_fits_its_schema_and_comes_back(features: dict[str, Any], with_interval: bool) -> None:
    columns = np.array(list(features.values())).reshape(-1, 3).T
    ends = {"low": columns[0], "high": columns[1], "interval_kind": "normal", "interval_level": 0.95}
    data = an_importance(
        names=list(features), value=columns[0], raw=columns[1], variance=columns[2], **(ends if with_interval else {})
    )
    IMPORTANCE.validate(orjson.loads(data))
    read = importance.decode(data)
    assert list(read.features) == sorted(features)
    for name, (value, raw, variance) in features.items():
        found = read.features[name]
        assert (found.value, found.raw, found.variance) == (value, raw, variance)
        assert (found.low is None) is not with_interval
    by_rank = sorted(features, key=lambda name: read.features[name].rank)
    assert by_rank == sorted(features, key=lambda name: (-features[name][0], name))


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "x": st.dictionaries(
                    text,
                    st.none() | st.booleans() | text | st.floats(-events.LARGEST, events.LARGEST),
                    min_size=1,
                    max_size=3,
                )
            },
            optional={
                "id": st.none() | text | st.integers(-(2**63), 2**63),
                "ts": st.none() | st.integers(0, 2**53),
                "y": st.none() | st.booleans() | text | finite | st.integers(-(2**53), 2**53),
            },
        ),
        max_size=3,
    )
)
def test_events_fit_their_schema_and_come_back(given_events: list[dict[str, Any]]) -> None:
    for message in (given_events, *given_events):
        data = events.encode(message)
        EVENTS.validate(orjson.loads(data))
        read = events.decode(data)
        wanted = message if isinstance(message, list) else [message]
        assert [(event.x, event.id, event.ts, event.y) for event in read] == [
            (one["x"], one.get("id"), one.get("ts"), one.get("y")) for one in wanted
        ]
        assert not events.is_flush(data) and not events.is_reset(data) and events.named_model(data) is None


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float64("nan"), np.float32("-inf")])
def test_no_number_beyond_the_finite_reaches_json(value: float) -> None:
    for field in ("loss", "prediction", "metric_value", "target"):
        with pytest.raises(RecordError, match="expected a finite number at"):
            a_prediction(**{field: value})
    with pytest.raises(RecordError, match=r"\$\.probabilities\.a"):
        a_prediction(probabilities={"a": value, "b": None})
    for field in ("value", "raw", "variance", "low", "high"):
        with pytest.raises(RecordError, match=r"expected a finite number at \$\.features\.a"):
            an_importance(**{field: [0.0, value]})
    with pytest.raises(RecordError):
        an_importance(alpha=value)
    if isinstance(value, float):
        with pytest.raises(RecordError, match=r"\$\[1\]\.x\.a"):
            events.encode([{"x": {"a": None}}, {"x": {"a": value}}])


def test_numpy_scalars_are_written_as_the_numbers_they_are() -> None:
    numpy_fields = {"loss": np.float64(0.1), "seq": np.int64(1), "metric_value": np.float64(0.5)}
    assert a_prediction(**numpy_fields) == a_prediction(loss=0.1, seq=1, metric_value=0.5)


def test_a_text_that_says_null_is_no_null() -> None:
    assert predictions.decode(a_prediction(stream="null", loss=None)).stream == "null"


def test_what_is_no_estimate_is_refused() -> None:
    with pytest.raises(RecordError, match="n = 0"):
        an_importance(n=0)
    with pytest.raises(RecordError, match="as many values"):
        an_importance(value=[1.0])
    with pytest.raises(RecordError, match="different names"):
        an_importance(names=["a", "a"])


def test_fields_of_a_later_release_are_skipped_and_another_version_is_refused() -> None:
    later = {**orjson.loads(a_prediction()), "novelty": 0.5}
    assert predictions.decode(orjson.dumps(later)) == predictions.decode(a_prediction())
    with pytest.raises(RecordError, match="schema_version"):
        predictions.decode(orjson.dumps({**later, "schema_version": 2}))


@pytest.mark.parametrize(
    "data", [b"", b"null", b"[]", b"{}", b'{"schema_version":1}', b"\xff", b'{"stream":"\xff"}', b"[" * 100_000]
)
def test_what_is_no_record_is_a_record_error(data: bytes) -> None:
    for decode in (predictions.decode, importance.decode):
        with pytest.raises(RecordError):
            decode(data)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"1",
        b'{"y":1}',
        b'{"x":{}}',
        b'{"x":{"a":NaN}}',
        b'{"x":{"a":1e400}}',
        b'{"x":{"a":[1]}}',
        b'{"x":{"a":1},"z":1}',
        b'{"x":{"a":1},"ts":"1"}',
        b'{"x":{"a":1},"id":1.5}',
        b'{"x":{"a":"\xff"}}',
        b'[{"x":{"a":1}},[{"x":{"a":1}}]]',
        b'[{"flush":true}]',
        b'{"flush":true}',
        b'{"reset":true}',
    ],
)
def test_what_is_no_event_is_a_record_error(data: bytes) -> None:
    with pytest.raises(RecordError):
        events.decode(data)


@pytest.mark.parametrize(("mark", "known"), [(b"flush", events.is_flush), (b"reset", events.is_reset)])
def test_a_mark_is_known_however_it_is_spaced(mark: bytes, known: Callable[[bytes], bool]) -> None:
    for data in (b'{"%s":true}' % mark, b' {\n"%s" : true }\n' % mark):
        assert known(data)
        assert events.is_flush(data) != events.is_reset(data)
        EVENTS.validate(orjson.loads(data))


@pytest.mark.parametrize(
    "data", [b'{"flush":false}', b'{"flush":1.0}', b'[{"flush":true}]', b'{"flush":true,"x":{}}', b'{"flush":', b"",
             b'{"flush":true,"z":true}']
)  # fmt: skip
def test_nothing_else_is_a_mark(data: bytes) -> None:
    assert not events.is_flush(data)
    assert not events.is_reset(data.replace(b"flush", b"reset"))


def test_a_mark_of_a_model_names_a_digest_and_nothing_else_is_one() -> None:
    name = "0123456789abcdef" * 4
    for data in (events.model_mark(name), b' {"model" : "%s"}\n' % name.encode()):
        assert events.named_model(data) == name
        EVENTS.validate(orjson.loads(data))
    for near in (name[1:], name.upper(), name + "0", f"{name}\n", 1, True, None, [name]):
        assert events.named_model(orjson.dumps({"model": near})) is None
    for value in (b'[{"model":"%s"}]', b'{"model":"%s","x":{}}', b'{"model":"%s"'):
        assert events.named_model(value % name.encode()) is None


@given(
    reason=st.sampled_from(events_dead.Reason),
    topic=text,
    offset=natural,
    detail=st.text(max_size=20),
    rejected=st.none() | st.lists(st.tuples(natural, st.sampled_from([r.value for r in events_dead.Reason]))),
    omitted_bytes=st.none() | natural,
)
def test_dead_letter_headers_come_back_and_fit_their_schema(**fields: Any) -> None:
    headers = events_dead.headers(epoch=1, partition=2, time=3, **fields)
    read = events_dead.decode([("foreign", b"\xff"), *headers, ("null", None)])
    for name, value in fields.items():
        assert getattr(read, name) == value
    assert (read.epoch, read.partition, read.time) == (1, 2, 3)
    DEAD.validate(orjson.loads(orjson.dumps({name: getattr(read, name) for name in read.__struct_fields__})))


def test_a_dead_letter_without_its_headers_is_a_record_error() -> None:
    headers = events_dead.headers(epoch=0, reason="not_json", topic="t", partition=0, offset=0, time=0)
    for left_out, _ in headers:
        with pytest.raises(RecordError, match=left_out):
            events_dead.decode([header for header in headers if header[0] != left_out])
    with pytest.raises(RecordError):
        events_dead.decode([*headers, ("rejected", b"[")])


@given(
    detail=st.text(),
    repeated=st.integers(0, 10_000),
    count=st.integers(0, 3 * events_dead.LISTED),
    topic=st.text(alphabet="t", min_size=1, max_size=249),
)
@examples(50)
def test_the_headers_of_a_letter_are_bounded_and_say_what_they_leave_out(
    detail: str, repeated: int, count: int, topic: str
) -> None:
    reason = max(events_dead.Reason, key=len)
    rejected = [(10**8 + index, reason) for index in range(count)]
    headers = events_dead.headers(
        epoch=10**18,
        reason=reason,
        topic=topic,
        partition=10**9,
        offset=10**18,
        time=10**15,
        detail=detail * (1 + repeated // (1 + len(detail))),
        rejected=rejected,
        omitted_bytes=10**10,
        omitted_key_bytes=10**10,
    )
    assert events_dead.size(b"k" * events_dead.KEY_BYTES, None, headers) <= events_dead.ORIGIN_BYTES
    read = events_dead.decode(headers)
    assert read.rejected == rejected[: events_dead.LISTED]
    assert read.rejected_count == (count if count > events_dead.LISTED else None)
    assert detail.startswith(read.detail) or read.detail.startswith(detail)


def test_a_prediction_of_many_classes_names_the_most_probable_and_sums_the_others() -> None:
    chances = {f"{'é' * 500}{number:04}": (number + 1) / 2_000_000 for number in range(1_000)}
    record = a_prediction(probabilities=chances)
    assert len(record) < 700_000
    read = predictions.decode(record)
    PREDICTIONS.validate(orjson.loads(record))
    assert (read.schema_version, len(read.probabilities or ())) == (1, predictions.NAMED)
    assert list(read.probabilities or ()) == sorted(chances)[-predictions.NAMED :]
    assert read.others is not None and read.others.classes == 1_000 - predictions.NAMED
    assert read.others.probability == pytest.approx(sum(chances.values()) - sum((read.probabilities or {}).values()))


def test_a_prediction_of_as_many_classes_as_are_named_is_what_it_was() -> None:
    chances = {f"{number:04}": 1 / 128 for number in range(predictions.NAMED)}
    record = orjson.loads(a_prediction(probabilities=chances))
    assert "others" not in record and record["probabilities"] == chances


def test_an_encoder_keeps_nothing_of_the_event_before() -> None:
    """An encoder keeps nothing of an earlier record, not even of one that it refused."""
    encoder = predictions.Encoder(epoch=0, stream="s")
    full: dict[str, Any] = {
        "prediction": "a",
        "probabilities": {"b": 0.25, "a": 0.75},
        "target": "b",
        "loss": 1.0,
        "metric_value": 0.5,
    }
    fixed: dict[str, Any] = {"id": "e", "loss_name": "zero_one", "metric_name": "accuracy", "model_version": 1}
    for seq, event in enumerate((full, full | {"loss": float("nan")}, dict.fromkeys(full), full)):
        alike = {"seq": seq, **fixed, **event}
        if event["loss"] != event["loss"]:
            with pytest.raises(RecordError):
                encoder.encode(**alike)
        else:
            assert encoder.encode(**alike) == predictions.encode(epoch=0, stream="s", **alike)
