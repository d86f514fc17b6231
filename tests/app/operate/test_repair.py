"""A replay sends the rejected part of a dead letter, repaired, and nothing that would be rejected again."""

import json
from pathlib import Path

import orjson
import pytest

from glasstream.app.configuration import load
from glasstream.app.operate.repair import (
    Letter,
    Repaired,
    RepairFunction,
    Unrepaired,
    filter_named,
    known_keys,
    nan_as_null,
    repair,
)
from glasstream.base.errors import InputError
from glasstream_topics import events, events_dead

LIMIT = 1_000
RULES = load(assignments=["topics.events=4", f"limits.message_bytes={LIMIT}"])


def letter(
    value: bytes | None,
    reason: str = "model_error",
    key: bytes | None = b"s",
    rejected: list[tuple[int, str]] | None = None,
    omitted: int | None = None,
    topic: str = "glasstream.events",
) -> Letter:
    headers = events_dead.headers(
        epoch=0, reason=reason, topic=topic, partition=1, offset=7, time=1, detail="why", rejected=rejected,
        omitted_bytes=omitted,
    )  # fmt: skip
    return Letter("p.events.dead", 1, 3, key, value, events_dead.decode(headers))


def sent(one: Letter, function: RepairFunction | None = None, to: str | None = None) -> object:
    outcome = repair(one, function, RULES, to)
    assert isinstance(outcome, Repaired), outcome
    assert len(events.decode(outcome.value)) == outcome.count
    return orjson.loads(outcome.value)


def reason(one: Letter, function: RepairFunction | None = None, to: str | None = None) -> str:
    outcome = repair(one, function, RULES, to)
    assert isinstance(outcome, Unrepaired), outcome
    return outcome.reason


def test_without_a_filter_the_bytes_are_what_they_were() -> None:
    value = b'{"x":  {"a": 1.50}}'
    assert repair(letter(value), None, RULES) == Repaired(b"s", value, 1)


def test_what_the_intake_rejected_is_no_event() -> None:
    """Nobody but its producer, or a filter, can make an event of it."""
    foreign = letter(b'{"total": 3}', topic="shop.orders")
    outcome = repair(foreign, None, RULES)
    assert isinstance(outcome, Unrepaired) and outcome.reason == "not_an_event"
    assert "rejected it on shop.orders" in outcome.detail
    assert sent(foreign, lambda message: {"x": message}) == {"x": {"total": 3}}


def test_of_an_array_only_the_rejected_elements_are_sent() -> None:
    value = b'[{"x": {"a": 1}}, {"x": {"a": 2}}, {"x": {"a": 3}}]'
    one = letter(value, "rejected_elements", rejected=[(1, "model_error")])
    assert sent(one) == [{"x": {"a": 2}}]
    assert sent(one, lambda event: {**event, "y": 1}) == [{"x": {"a": 2}, "y": 1}]


def test_of_an_array_that_was_rejected_whole_all_are_sent() -> None:
    one = letter(b'[{"x": {"a": 1}}, {"x": {"a": 2}}]', "wrong_partition")
    assert len(sent(one)) == 2  # type: ignore[arg-type]
    assert sent(one, lambda event: event if event["x"]["a"] > 1 else None) == [{"x": {"a": 2}}]


def test_what_the_filter_leaves_out_is_not_sent() -> None:
    assert reason(letter(b'{"x": {"a": 1}}'), lambda event: None) == "left_out"
    assert reason(letter(b'[{"x": {"a": 1}}]'), lambda event: None) == "left_out"


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (letter(b'{"x": {"a": NaN}}'), "not_json"),
        (letter(b'{"x": {}}'), "empty_x"),
        (letter(None), "null_message"),
        (letter(b'{"x": {"a": "' + b"z" * LIMIT + b'"}}'), "too_large"),
        (letter(b'{"x": {"a": 1}}', key=None), "missing_stream"),
        (letter(b'{"x": {"a": 1}}', key=b"\xff"), "bad_stream"),
        (letter(None, omitted=99), "omitted"),
        (letter(b"[3]", rejected=[(0, "not_an_object")]), "not_an_object"),
    ],
)
def test_what_would_be_rejected_again_is_not_sent(one: Letter, why: str) -> None:
    assert reason(one) == why


def test_a_letter_without_a_stream_is_sent_to_the_one_that_is_named() -> None:
    outcome = repair(letter(b'{"x": {"a": 1}}', key=None), None, RULES, "t")
    assert isinstance(outcome, Repaired) and outcome.key == b"t"


def test_the_filters_that_are_there() -> None:
    nan = letter(b'[{"x": {"a": NaN, "b": -Infinity, "c": 1}, "y": 0}]', "not_json")
    assert reason(nan, known_keys) == "not_json"
    repaired_nan = repair(nan, nan_as_null, RULES)
    assert isinstance(repaired_nan, Repaired)
    assert orjson.loads(repaired_nan.value) == [{"x": {"a": None, "b": None, "c": 1}, "y": 0}]
    for beyond in (b'{"x": {"a": ', b'[{"x": {"a": 1}}', b"[" * 1_000, b'[{"x": {"a": "\xff"}}]'):
        assert reason(letter(beyond, "not_json"), nan_as_null) in ("not_json", "not_utf8"), beyond[:20]
    unknown = letter(b'{"x": {"a": 1}, "z": 3}', "unknown_key")
    assert sent(unknown, filter_named("known-keys")) == {"x": {"a": 1}}
    assert filter_named("nan-as-null") is nan_as_null and filter_named("json:loads") is json.loads


@pytest.mark.parametrize("name", ["nope", "no.such.module:f", "json:nope", ":f", "json:"])
def test_a_filter_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="--filter: "):
        filter_named(name)


def test_a_module_of_a_filter_that_raises_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "damaged_filter.py").write_text("def repair(: pass", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(InputError, match=r"--filter: cannot import 'damaged_filter' .* it raised SyntaxError"):
        filter_named("damaged_filter:repair")


def test_a_filter_that_raises_or_gives_no_json_is_named_with_the_letter() -> None:
    one = letter(b'{"x": {"a": 1}}')
    with pytest.raises(
        InputError, match=r"p\.events\.dead\[1\]@3: the filter raised KeyError: 'b'; let it return None"
    ):
        repair(one, lambda event: event["b"], RULES)
    with pytest.raises(InputError, match=r"p\.events\.dead\[1\]@3: .*expected JSON"):
        repair(one, lambda event: {"x": {"a": object()}}, RULES)
