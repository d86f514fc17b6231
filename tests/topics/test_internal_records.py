"""Laws of requests and contributions: they come back bit for bit, and a block that contradicts itself is refused."""

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from glasstream_topics import contributions, frames, methods, requests
from glasstream_topics.errors import FrameError
from tests.support.golden_records import block, explained, failed, watched

any_float = st.floats(width=64)
NO_CHANGES = {"ipdp.row": np.zeros(0, np.int32), "ipdp.place": np.zeros(0, np.int32), "ipdp.value": np.zeros(0)}
ZEROS = {"loss": np.zeros(3), "ipfi": np.zeros((3, 2))}
POINTS = np.zeros((3, 2, 2))


ROWS = {"inputs": np.zeros((3, 2)), "target": np.zeros(3)}
NUMBERS: dict[str, Any] = {"classes": [], "new_classes": [], "outputs": []}


def curves(points: frames.Array, answers: frames.Array) -> dict[str, frames.Array]:
    return {"loss": np.zeros(3), "ipdp": answers, "ipdp.points": points}


def sage(**changes: Any) -> dict[str, frames.Array]:
    parts = {"first": np.zeros(3, np.int64), "model_loss": np.zeros(3), "prediction": np.zeros((3, 2))}
    parts |= {"target": np.zeros(3), **changes}
    return {"loss": np.zeros(3), "isage": np.zeros((3, 2)), **{f"isage.{name}": a for name, a in parts.items()}}


@st.composite
def blocks(draw: st.DrawFn) -> requests.ExplainRequest:
    count, d, n = draw(st.integers(1, 4)), draw(st.integers(0, 3)), draw(st.integers(1, 2))
    first_row = draw(st.integers(1, 2**40))
    steps = draw(st.lists(st.integers(1, 5), min_size=count, max_size=count))
    classification = draw(st.booleans())
    classes = draw(st.lists(st.text(max_size=4), min_size=1, max_size=3, unique=True)) if classification else []
    kinds = draw(st.lists(st.integers(0, 2), min_size=d, max_size=d))
    categories = st.tuples(
        st.integers(0, 9), st.lists(st.text(max_size=3), min_size=1, max_size=2, unique=True).map(tuple)
    )
    finite = st.floats(allow_nan=False, allow_infinity=False)
    return requests.ExplainRequest(
        stream=draw(st.text(min_size=1, max_size=8)),
        epoch=draw(st.integers(0, 3)),
        partition=draw(st.integers(0, 3)),
        first_row=first_row,
        version=draw(st.integers(1, first_row)),
        seqs=first_row + np.cumsum(np.array(steps, np.int64)),
        x=draw(hnp.arrays(np.float64, (count, d), elements=any_float)),
        y=(
            draw(hnp.arrays(np.float64, count, elements=st.integers(0, len(classes) - 1).map(float)))
            if classification
            else draw(hnp.arrays(np.float64, count, elements=finite))
        ),
        draws={"ipfi": draw(hnp.arrays(np.float64, (count, n, d), elements=any_float))},
        names=draw(st.lists(st.text(max_size=4), min_size=d, max_size=d, unique=True)),
        kinds=kinds,
        classes=classes,
        task="classification" if classification else "regression",
        loss="zero_one",
        new_categories={
            slot: requests.NewCategories(*draw(categories)) for slot, kind in enumerate(kinds) if kind == 2
        },
        flush_before=draw(st.booleans()),
    )


def same(one: object, other: object) -> bool:
    """Whether two fields are the same, arrays bit for bit."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return one == other


def assert_same(one: Any, other: Any) -> None:
    for field in fields(one):
        assert same(getattr(one, field.name), getattr(other, field.name)), field.name


@given(blocks())
def test_a_block_comes_back_bit_for_bit(written: requests.ExplainRequest) -> None:
    data = requests.encode(written)
    read = requests.decode(data)
    assert_same(read, written)
    assert requests.encode(read) == data


@given(blocks(), st.sampled_from(["ok", "failed"]))
def test_contributions_come_back_bit_for_bit(of: requests.ExplainRequest, kind: str) -> None:
    values = np.where(np.abs(of.x) <= methods.LARGEST, of.x, -0.0)
    written = contributions.Contributions(
        stream=of.stream,
        epoch=of.epoch,
        partition=of.partition,
        first_row=of.first_row,
        version=of.version,
        seqs=of.seqs,
        kind=kind,
        names=of.names,
        kinds=of.kinds,
        values={"ipfi": values, "loss": np.zeros(of.count)} if kind == "ok" else {},
        reason="" if kind == "ok" else "KeyError: 'a'",
        loss=of.loss,
        flush_before=of.flush_before,
    )
    data = contributions.encode(written)
    read = contributions.decode(data)
    assert_same(read, written)
    assert contributions.encode(read) == data
    assert contributions.partition(read) == of.partition


def test_rows_come_back_with_whatever_numbers_they_have() -> None:
    inputs = np.array([[np.nan, methods.LARGEST], [-methods.LARGEST, 1e60], [5e-324, -0.0]])
    for classes in ({}, NUMBERS):
        written = replace(watched(), values={**ZEROS, "inputs": inputs, "target": np.array([2.0, 0.0, 1.0])}, **classes)
        assert_same(contributions.decode(contributions.encode(written)), written)


def test_flush_items_come_back() -> None:
    item = requests.flush_item(stream="s", epoch=0, partition=2, first_row=0)
    assert_same(requests.decode(requests.encode(item)), item)
    answer = contributions.flush_item(stream="s", epoch=0, partition=2, first_row=0)
    assert_same(contributions.decode(contributions.encode(answer)), answer)
    assert item.count == answer.count == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x": np.zeros((2, 2))}, r"x: expected float64\[3, 2\]"),
        ({"x": np.zeros((3, 2), np.float32)}, "got float32"),
        ({"y": np.zeros((3, 1))}, r"y: expected float64\[3\]"),
        ({"seqs": np.arange(100.0, 103.0)}, "seqs: expected int64"),
        ({"seqs": np.array([100, 101, 100])}, "seqs: expected different numbers"),
        ({"seqs": np.array([99, -1, 101])}, "got 1 below"),
        ({"draws": {"ipfi": np.zeros((3, 2, 3))}}, r"draws of ipfi: expected float64\[3, 2, 2\]"),
        ({"draws": {"ipfi": np.zeros((3, 2))}}, "draws of ipfi"),
        ({"names": ["age", "age"]}, "2 different names"),
        ({"kinds": [0]}, "as many kinds"),
        ({"kinds": [0, 3]}, None),
        ({"new_categories": {0: requests.NewCategories(0, ("a",))}}, "a slot of kind text"),
        ({"new_categories": {2: requests.NewCategories(0, ("a",))}}, "a slot of kind text"),
        ({"new_categories": {1: requests.NewCategories(0, ())}}, "some texts"),
        ({"new_categories": {1: requests.NewCategories(0, ("a", "a"))}}, "different texts"),
        ({"first_row": -1}, "from 0 on"),
        ({"epoch": -1}, "from 0 on"),
        ({"partition": -1}, "from 0 on"),
        ({"version": -1}, "from 0 on"),
        ({"version": 101}, "model version of at most the first row 100"),
        ({"y": np.array([0.0, 2.0, 0.0])}, "indices of 2 classes"),
        ({"y": np.array([0.0, -1.0, 0.0])}, "indices of 2 classes"),
        ({"y": np.array([0.0, 0.5, 0.0])}, "indices of 2 classes"),
        ({"y": np.array([0.0, np.nan, 0.0])}, "indices of 2 classes"),
        ({"task": "regression", "classes": [], "y": np.array([0.0, np.inf, 0.0])}, "finite labels"),
        ({"task": "regression"}, "none for regression"),
        ({"task": "ranking"}, "task of classification or regression"),
        ({"loss": ""}, "and a loss"),
        ({"classes": ["no", "no"]}, "different classes"),
        ({"stream": ""}, "length >= 1"),
        ({"stream": "s" * 1_025}, "length <= 1024"),
        ({"draws": {"ipfi": np.zeros((3, 0, 2))}}, "at least one value"),
        ({"draws": {"isage": np.zeros((3, 2, 1, 2)), "isage.order": np.tile([0, 1], (3, 1))}}, "for each of 1"),
        ({"draws": {"isage": np.zeros((3, 1, 0, 2)), "isage.order": np.tile([0, 1], (3, 1))}}, "for each of 1"),
        ({"parts": [1, 2]}, "parts of 3 entries"),
        ({"parts": [1, 2, 4]}, "parts of 3 entries"),
        ({"parts": [1, 1, 1]}, r"draws of ipfi: expected float64\[0"),
        ({"parts": [3, 3, 3], "row": 90, "version": 101}, "model version of at most the first row 100"),
        ({"parts": [3, 3, 3], "row": 100, "seqs": np.array([100, 101, 100])}, "seqs: expected different numbers"),
        ({"draws": NO_CHANGES, "grid": requests.Grid(2**40, 10, True)}, "grids of 2 to 1000"),
        ({"draws": NO_CHANGES, "grid": requests.Grid(1, 10, True)}, "grids of 2 to 1000"),
        ({"draws": NO_CHANGES, "grid": requests.Grid(10, 1, True)}, "grids of 2 to 1000"),
        ({"attributed": requests.AttributionOptions("additive", "", 0.0, 1.0, pairs=21)}, "0 to 20 pairs, got 21"),
        ({"attributed": requests.AttributionOptions("additive", "", 0.0, 1.0, cache=0)}, "1 to 4096 MiB, got 0"),
        ({"attributed": requests.AttributionOptions("additive", "", 0.0, 1.0, cache=2**50)}, "1 to 4096 MiB, got"),
    ],
)
def test_a_block_that_contradicts_itself_is_refused(changes: dict[str, Any], message: str | None) -> None:
    with pytest.raises(FrameError, match=message):
        data = requests.encode(replace(block(), **changes))
        requests.decode(data)


def test_an_item_without_rows_is_a_flush() -> None:
    item = requests.flush_item(stream="s", epoch=0, partition=2, first_row=7)
    with pytest.raises(FrameError, match="expected rows or a flush mark"):
        requests.encode(replace(item, flush_before=False))


@pytest.mark.parametrize(
    ("record", "changes", "message"),
    [
        (explained, {"values": {"ipfi": np.zeros((3, 3))}}, r"values of ipfi: expected float64\[3, 2\]"),
        (explained, {"values": {}}, "expected values where the kind is ok"),
        (explained, {"kind": "flush"}, "expected rows, or none and a flush mark"),
        (explained, {"kind": "failed"}, "reason where it is failed"),
        (explained, {"kind": "maybe"}, "expected a kind of ok, failed, flush"),
        (explained, {"reason": "no"}, "reason where it is failed"),
        (explained, {"seqs": np.array([102, -1, 103])}, "seqs: expected different numbers"),
        (explained, {"seqs": np.empty(0, np.int64), "values": {"ipfi": np.zeros((0, 2))}}, "expected rows"),
        (explained, {"version": 101}, "a model version of at most the first row 100"),
        (explained, {"names": ["a", "a"]}, "different names"),
        (explained, {"first_row": -5}, "from 0 on"),
        (explained, {"values": {**ZEROS, "ipfi": np.full((3, 2), np.nan)}}, "numbers within .* as ipfi"),
        (explained, {"values": {**ZEROS, "loss": np.array([0.0, 1e126, 0.0])}}, "numbers within .* as loss"),
        (explained, {"values": sage(prediction=np.full((3, 2), 1e64)), "loss": "brier"}, "within .1e.63"),
        (explained, {"values": sage(first=np.full(3, 2))}, "to be one of the features"),
        (explained, {"values": sage(target=np.full(3, 2.0))}, "indices of 2 classes"),
        (watched, {"values": {**ZEROS, "inputs": np.zeros((3, 2))}}, "inputs and target together, got no target"),
        (watched, {"values": {**ZEROS, **ROWS, "inputs": np.zeros((3, 3))}}, r"inputs: expected float64\[3, 2\]"),
        (watched, {"values": {**ZEROS, **ROWS, "inputs": np.zeros((3, 2), np.float32)}}, "got float32"),
        (watched, {"values": {**ZEROS, **ROWS, "target": np.zeros((3, 1))}}, r"target: expected float64\[3\]"),
        (watched, {"values": {**ZEROS, **ROWS, "target": np.full(3, 3.0)}}, "target: expected indices of 3 classes"),
        (watched, {"values": {**ZEROS, **ROWS, "target": np.full(3, -1.0)}}, "target: expected indices of 3 classes"),
        (watched, {"values": {**ZEROS, **ROWS, "target": np.full(3, np.nan)}}, "indices of 3 classes"),
        (watched, {"values": {**ZEROS, **ROWS, "target": np.full(3, np.inf)}, **NUMBERS}, "as target"),
        (watched, {"new_classes": ["no"]}, "expected classes other than"),
        (watched, {"values": ZEROS}, "expected none without targets"),
        (explained, {"values": curves(np.zeros((3, 2_000, 2)), np.zeros((3, 2, 2_000, 1)))}, "at most 1000"),
        (explained, {"values": curves(POINTS, np.full((3, 2, 2, 1), np.nan))}, "points and answers within"),
        (explained, {"values": curves(POINTS + np.inf, np.zeros((3, 2, 2, 1)))}, "points and answers within"),
        (explained, {"values": curves(POINTS * np.nan, np.full((3, 2, 2, 1), 1e300))}, "points and answers within"),
        (explained, {"values": curves(POINTS, np.zeros((3, 2, 2, 1))), "texts": {}}, "the texts of the categories"),
        (failed, {"reason": ""}, "reason where it is failed"),
        (failed, {"values": {"ipfi": np.zeros((1, 2))}}, "values where the kind is ok"),
    ],
)
def test_contributions_that_contradict_themselves_are_refused(
    record: Callable[[], contributions.Contributions], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(FrameError, match=message):
        contributions.encode(replace(record(), **changes))


@pytest.mark.parametrize("decode", [requests.decode, contributions.decode])
def test_one_record_is_not_taken_for_the_other(decode: Callable[[bytes], object]) -> None:
    other = requests.encode(block()) if decode is contributions.decode else contributions.encode(explained())
    with pytest.raises(FrameError):
        decode(other)


@pytest.mark.parametrize(
    ("kind", "decode", "data"),
    [
        ("request", requests.decode, requests.encode(block())),
        ("contributions", contributions.decode, contributions.encode(explained())),
    ],
)
def test_every_other_frame_under_the_same_kind_is_refused(
    kind: str, decode: Callable[[bytes], object], data: bytes
) -> None:
    frame = frames.decode(data, kind, 1)
    decode(frames.encode(kind, 1, frame.meta, frame.arrays))
    for left_out in frame.meta:
        with pytest.raises(FrameError, match=left_out):
            decode(frames.encode(kind, 1, {n: v for n, v in frame.meta.items() if n != left_out}, frame.arrays))
        with pytest.raises(FrameError):
            decode(frames.encode(kind, 1, {**frame.meta, left_out: {"?": 1}}, frame.arrays))
    with pytest.raises(FrameError, match="more"):
        decode(frames.encode(kind, 1, {**frame.meta, "more": 1}, frame.arrays))
    with pytest.raises(FrameError, match="more"):
        decode(frames.encode(kind, 1, frame.meta, {**frame.arrays, "more": np.zeros(1)}))
    for left_out in frame.arrays:
        if left_out not in ("draws/ipfi", "values/ipfi"):  # a method of one array may be left out whole
            with pytest.raises(FrameError):
                decode(frames.encode(kind, 1, frame.meta, {n: a for n, a in frame.arrays.items() if n != left_out}))


def test_a_slot_given_twice_is_refused() -> None:
    frame = frames.decode(requests.encode(block()), "request", 1)
    twice = {**frame.meta, "new_categories": [[1, 2, ["a"]], [1, 3, ["b"]]]}
    with pytest.raises(FrameError, match="once per slot"):
        requests.decode(frames.encode("request", 1, twice, frame.arrays))


def test_the_key_of_a_block_says_where_it_begins() -> None:
    assert requests.key("a/b", 120) == b"a/b/120"
    assert contributions.key("Škoda") == "Škoda".encode()
