"""Where a change is: conditions that hold for the rows, numbers that add up, and segments only with evidence."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.json import decode

from glasstream.base.draws import stream_key
from glasstream.base.errors import FrameError
from glasstream.detect.incidents.recent import SIDE, Recent, most_rows
from glasstream.detect.incidents.watch import IncidentWatch
from glasstream.detect.incidents.where import Sample, Split, _part, conditions_of, locate, roundest
from glasstream_topics.incidents import Condition, Where
from glasstream_topics.record import encode_record
from tests.support.examples import examples
from tests.support.incident_streams import changed, concept_moved, data_moved, model_replaced

KEY = stream_key(1, "s")
NAMES = ["hour", "price", "region", "flag", "sensor"]
KINDS = [0, 0, 2, 1, 0]
REGIONS = {0: "north", 1: "south", 2: "east", 3: "west"}


def sample(seed: int, rows: int = 2 * SIDE) -> Sample:
    """Return rows of which nothing changes."""
    draws = np.random.default_rng(seed)
    inputs = np.column_stack(
        [
            draws.integers(0, 24, rows),
            np.float32(draws.lognormal(3.0, 1.0, rows)),
            draws.integers(0, 4, rows),
            draws.integers(0, 2, rows),
            np.where(draws.random(rows) < 0.3, np.nan, draws.normal(size=rows)),
        ]
    ).astype(float)
    losses = np.where(draws.random(rows) < 0.15, 0.9, 0.1) * draws.random(rows)
    return Sample(inputs, losses, np.arange(rows) >= rows // 2, np.ones(rows, bool), NAMES, KINDS, {2: REGIONS})


def risen(one: Sample, where: np.ndarray, seed: int = 0) -> Sample:
    """Return rows whose loss rises in some rows since."""
    draws = np.random.default_rng(seed)
    more = np.clip(0.6 + 0.2 * draws.normal(size=len(one.losses)), 0.0, 1.0)
    return replace(one, losses=np.where(where & one.since, more, one.losses))


def located(one: Sample, of: Any = "loss", **options: Any) -> Where:
    found = locate(np.arange(len(one.losses)), one, of, KEY, **options)
    assert found is not None
    return found


def fulfilled(conditions: Sequence[Condition], inputs: np.ndarray, names: Sequence[str] = NAMES) -> np.ndarray:
    """Return which rows fulfil conditions, by their machine-readable form alone."""
    mask = np.ones(len(inputs), bool)
    for one in conditions:
        slot = names.index(one.feature)
        for row, value in enumerate(inputs[:, slot]):
            known = REGIONS[int(value)] if one.feature in ("region", "colour") and not np.isnan(value) else value
            holds = {
                ">=": lambda known=known, one=one: known >= one.values[0],
                "<": lambda known=known, one=one: known < one.values[0],
                "in": lambda known=known, one=one: known in one.values,
                "not in": lambda known=known, one=one: known not in one.values,
                "missing": lambda: False,
                "present": lambda: True,
            }[one.op]
            mask[row] &= one.missing if np.isnan(value) else holds()
    return mask


@pytest.mark.parametrize(
    ("text", "box"),
    [
        ("hour >= 20", lambda x: x[:, 0] >= 20),
        ("hour < 3", lambda x: x[:, 0] < 3),
        ("region = east", lambda x: x[:, 2] == 2),
        ("flag = true and region = east", lambda x: (x[:, 2] == 2) & (x[:, 3] == 1)),
        ("sensor is missing", lambda x: np.isnan(x[:, 4])),
    ],
)
def test_a_segment_is_named_with_its_share_of_events_and_of_the_change(text: str, box: Any) -> None:
    one = sample(1)
    inside = box(one.inputs)
    where = located(risen(one, inside))
    (segment,) = where.segments
    assert (where.extent, {*segment.text.split(" and ")}) == ("segments", {*text.split(" and ")})
    assert np.array_equal(fulfilled(segment.conditions, one.inputs), inside)
    assert segment.carried is not None and segment.carried > 0.8
    assert segment.low is not None and segment.high is not None and 0.3 < segment.low < segment.high < 0.8
    assert abs(segment.share_since - inside[one.since].mean()) < 0.06
    assert segment.loss_before is not None and segment.loss_since is not None
    assert segment.low <= segment.loss_since - segment.loss_before <= segment.high


@pytest.mark.parametrize("tenths", range(2, 10))
def test_a_threshold_is_a_short_decimal_that_separates_rows_in_single_precision(tenths: int) -> None:
    one, draws = sample(2), np.random.default_rng(3)
    decimals = draws.integers(1, 11, len(one.losses)) / 10
    inputs = np.column_stack([np.float32(decimals), one.inputs[:, 1:]]).astype(float)
    where = located(risen(replace(one, inputs=inputs), decimals >= tenths / 10))
    if where.extent == "segments":
        (segment,) = where.segments
        assert segment.text == f"hour >= {tenths / 10}"
        assert abs(segment.share_since - (decimals >= tenths / 10)[one.since].mean()) < 0.06
    else:
        assert tenths <= 6, "about half and more than half of the events are no segment"


def test_a_rise_in_all_events_is_everywhere_and_without_one_no_segment_is_named() -> None:
    """At most one sample in 100 may have a segment by chance, so that three of 60 have a probability of 0.02."""
    segments = 0
    for seed in range(60):
        one = sample(seed)
        assert located(risen(one, np.ones(len(one.losses), bool), seed)).extent == "everywhere"
        segments += located(one).extent == "segments"
    assert segments <= 2


def test_more_events_in_a_part_of_the_inputs_are_located() -> None:
    one = sample(4)
    later = one.since & (np.random.default_rng(1).random(len(one.losses)) < 0.3)
    moved = replace(one, inputs=np.where(later[:, np.newaxis] & (np.arange(5) == 2), 3.0, one.inputs))
    where = located(moved, "events")
    assert [segment.text for segment in where.segments] == ["region = west"]
    assert where.segments[0].share_since - where.segments[0].share_before == pytest.approx(0.225, abs=0.1)
    assert located(one, "events").segments == []


@given(seed=st.integers(0, 2**32), cuts=st.lists(st.integers(0, 4), min_size=2, max_size=2))
@examples(20)
def test_the_parts_of_a_change_add_up(seed: int, cuts: list[int]) -> None:
    draws = np.random.default_rng(seed)
    one = replace(sample(seed), losses=draws.lognormal(0.0, 2.0, 2 * SIDE), since=draws.random(2 * SIDE) < 0.4)
    leaf = 3 * (one.inputs[:, 2] > cuts[0]) + (one.inputs[:, 0] > 5 * cuts[1])
    parts = [_part(one, leaf == number, "loss", 1) for number in np.unique(leaf)]
    change = one.losses[one.since].mean() - one.losses[~one.since].mean()
    assert sum(part.worth for part in parts) == pytest.approx(change, rel=1e-9, abs=1e-12)


def test_categories_without_a_name_and_too_few_rows_name_nothing() -> None:
    one = sample(2)
    inside = one.inputs[:, 2] == 2
    unnamed = replace(risen(one, inside), texts={2: {0: "north", 1: "south"}})
    assert "east" not in " ".join(segment.text for segment in located(unnamed).segments)
    few = np.arange(len(one.losses)) < SIDE + 99
    assert locate(np.arange(SIDE + 99), one.part(few), "loss", KEY) is None


def test_rows_that_resemble_their_neighbours_are_worth_less() -> None:
    one = risen(sample(3), sample(3).inputs[:, 0] >= 20)
    single, alike = located(one).segments[0], located(one, block=2).segments
    assert alike == [] or alike[0].high - alike[0].low > single.high - single.low  # type: ignore[operator]


@given(
    splits=st.lists(
        st.tuples(
            st.sampled_from(
                [
                    *(Split(0, low) for low in (4.0, 9.5, 20.0)),
                    *(Split(4, low) for low in (-0.5, 0.25)),
                    *(Split(2, codes=codes) for codes in ((0.0,), (1.0, 3.0), (2.0,))),
                    *(Split(slot) for slot in (0, 2, 4)),
                ]
            ),
            st.booleans(),
        ),
        max_size=3,
    )
)
@examples(60)
def test_conditions_hold_for_the_rows_of_their_node(splits: list[tuple[Split, bool]]) -> None:
    one = sample(5)
    inputs = one.inputs.copy()
    inputs[::7, [0, 2]] = np.nan
    mask = np.ones(len(inputs), bool)
    for split, answer in splits:
        mask &= split.holds(inputs) == answer
    if mask.any():
        conditions = conditions_of(tuple(splits), NAMES, KINDS, one.texts, np.isnan(inputs).any(axis=0))
        assert np.array_equal(fulfilled(conditions, inputs), mask)


@given(a=st.floats(-1e30, 1e30), b=st.floats(-1e30, 1e30))
@examples(200)
def test_a_limit_lies_between_two_values(a: float, b: float) -> None:
    low, high = min(a, b), max(a, b)
    assert low == high or low < roundest(low, high) <= high


@given(seed=st.integers(0, 2**32))
@examples(30)
def test_recent_rows_are_the_newest_or_those_around_an_onset_whatever_the_cuts(seed: int) -> None:
    draws = np.random.default_rng(seed)
    features = int(draws.choice([2, 300]))
    most, count = most_rows(features), int(draws.integers(1, 3_000))
    inputs, losses = draws.normal(size=(count, features)).astype(np.float32).astype(float), draws.random(count)
    alarm = int(draws.integers(0, count + 1))
    onset = max(0, alarm - int(draws.integers(0, 300)))
    recent, done = Recent(), 0
    recent.widen(features)
    while done < count:
        end = min(count, done + int(draws.integers(1, 700)), alarm if done < alarm else count)
        recent.add(done, inputs[done:end], losses[done:end], {}, onset if done >= alarm else None)
        done = end
        if draws.random() < 0.2:
            successor = Recent()
            texts, arrays = recent.state()
            successor.restore(texts, {name: array.copy() for name, array in arrays.items()}, [0] * features, done)
            recent = successor
    rows = np.arange(max(0, alarm - most), alarm)
    if alarm < count:
        rows = np.concatenate([rows[rows >= onset - most // 2], np.arange(alarm, count)])[:most]
    assert np.array_equal(recent.rows, rows)
    assert np.array_equal(recent.inputs, inputs[rows]) and np.array_equal(recent.losses, losses[rows])


def test_recent_rows_of_forged_states_are_refused() -> None:
    recent = Recent()
    recent.widen(2)
    recent.add(5, np.ones((10, 2)), np.ones(10), {1: {1: "one"}}, None)
    texts, arrays = recent.state()
    assert texts == [[1, [(1, "one")]]]
    kept: list[Any] = [(1, [(1, "one")])]
    Recent().restore(kept, arrays, [0, 2], 14)
    forged: list[tuple[Any, dict[str, Any], int]] = [
        (kept, arrays | {"rows": arrays["rows"][::-1]}, 14),
        (kept, arrays, 13),
        (kept, arrays | {"losses": arrays["losses"][1:]}, 14),
        (kept, arrays | {"inputs": arrays["inputs"].astype("f8")}, 14),
        (kept, arrays | {"losses": np.full(10, np.nan)}, 14),
        ([(0, [(1, "one")])], arrays, 14),
        ([(2, [(1, "one")])], arrays, 14),
    ]
    for texts, changed_arrays, row in forged:
        with pytest.raises(FrameError):
            Recent().restore(texts, changed_arrays, [0, 2], row)
    most = {name: np.zeros((1_201, *array.shape[1:]), array.dtype) for name, array in arrays.items()}
    with pytest.raises(FrameError, match="up to 1200 rows"):
        Recent().restore(kept, most | {"rows": np.arange(1_201)}, [0, 2], 2_000)


@pytest.mark.parametrize(("change", "extent"), [(concept_moved, "segments"), (model_replaced, "everywhere")])
def test_incidents_about_the_loss_say_where_it_rose(change: Any, extent: str) -> None:
    found = list(IncidentWatch("s", 0, 7, 0.5).update(changed(change, 1).rows()))
    where = found[-1].where
    assert where is not None and (where.of, where.extent) == ("loss", extent)
    if extent == "segments":
        (segment,) = where.segments
        (condition,) = segment.conditions
        assert (condition.feature, condition.op) == ("a", ">=") and condition.values[0] == pytest.approx(0.3, abs=0.1)
        assert f"of the events: {segment.text}." in found[-1].summary
    else:
        assert "the loss rose everywhere" in found[-1].summary


def test_incidents_about_data_say_where_more_events_fall() -> None:
    found = list(IncidentWatch("s", 0, 7, 0.5).update(changed(data_moved, 1).rows()))
    where = found[-1].where
    assert where is not None and where.of == "events" and where.segments
    assert "of the events, before" in found[-1].summary


@given(seed=st.integers(0, 2**32), block=st.sampled_from([1, 7, 50]), of=st.sampled_from(["loss", "events"]))
@examples(40)
def test_rows_of_any_kind_are_located_with_finite_numbers(seed: int, block: int, of: Any) -> None:
    draws = np.random.default_rng(seed)
    rows, features = int(draws.integers(2, 1_300)), int(draws.integers(0, 5))
    kinds = draws.integers(0, 3, features).tolist()
    inputs = np.float32(draws.normal(size=(rows, features)) * 10.0 ** draws.integers(-44, 38, features)).astype(float)
    for slot, kind in enumerate(kinds):
        if kind:
            inputs[:, slot] = draws.integers(0, 2 if kind == 1 else 4, rows)
    inputs[draws.random((rows, features)) < draws.choice([0.0, 0.5, 1.0])] = np.nan
    losses = draws.choice([0.0, 1e-300, 1.0, -1.0, 1e120], rows, p=draws.dirichlet(np.ones(5)))
    since = np.arange(rows) >= draws.integers(0, rows + 1)
    names, texts = [f"f{slot}" for slot in range(features)], dict.fromkeys(range(features), REGIONS)
    one = Sample(inputs, losses, since, draws.random(rows) < 0.8, names, kinds, texts)
    where = locate(np.arange(rows), one, of, KEY, block)
    record_bytes = encode_record("incidents", where)  # refuses what is no number
    assert where is None or decode(record_bytes, type=Where) == where
