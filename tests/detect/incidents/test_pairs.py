"""Two features that are almost the same show together what neither shows alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import spearmanr

from glasstream.detect.incidents.pairs import LIKENESS, Pair, differences, find_pairs
from glasstream.detect.incidents.watch import IncidentWatch, Rows
from glasstream_topics.incidents import Incident
from tests.support.incident_streams import AT, Stream, changed, twins, twins_swapped, watched

ROWS = 4_500


@given(st.integers(0, 50), st.integers(2, 12), st.floats(0.0, 1.0))
def test_pairs_are_alike_and_no_feature_is_in_two(seed: int, features: int, noise: float) -> None:
    draws = np.random.default_rng(seed)
    values = draws.normal(size=(200, 1)) + noise * draws.normal(size=(200, features))
    pairs = find_pairs(values, range(features))
    slots = [slot for pair in pairs for slot in pair[:2]]
    assert len(slots) == len(set(slots))
    likeness = np.abs(np.atleast_2d(spearmanr(values).statistic)) if features > 2 else None
    for pair in pairs:
        assert abs(spearmanr(values[:, pair.first], values[:, pair.second]).statistic) >= LIKENESS - 1e-9
    if likeness is not None:
        rest = [slot for slot in range(features) if slot not in slots]
        assert (np.triu(likeness[np.ix_(rest, rest)], 1) < LIKENESS + 1e-9).all()


@given(arrays(np.float64, (70, 3), elements=st.floats(allow_nan=True, allow_infinity=True)))
def test_any_values_have_pairs_with_a_finite_ratio(values: np.ndarray) -> None:
    for pair in find_pairs(values, [4, 5, 6]):
        assert np.isfinite(pair.ratio) and pair.ratio != 0.0
        assert 4 <= pair.first <= 6 and 4 <= pair.second <= 6


@pytest.mark.parametrize(("factor", "ratio"), [(1.5, 1.0), (-1.0, -1.0), (100.0, 0.01), (-0.001, -1_000.0)])
def test_the_ratio_makes_units_comparable(factor: float, ratio: float) -> None:
    first = np.random.default_rng(1).normal(size=300)
    (pair,) = find_pairs(np.column_stack([first, factor * first]), [0, 1])
    assert pair == Pair(0, 1, pytest.approx(ratio))


def test_a_difference_is_missing_where_a_value_is() -> None:
    values = np.array([[1.0, 2.0], [np.nan, 2.0], [3.0, np.nan]])
    assert np.array_equal(differences(values, [Pair(0, 1, 0.5)]), [[0.0], [np.nan], [np.nan]], equal_nan=True)


@given(arrays(np.float64, (5, 2), elements=st.floats(allow_nan=False, allow_infinity=False)), st.floats(-1e9, 1e9))
def test_a_difference_of_any_values_is_finite(values: np.ndarray, ratio: float) -> None:
    assert np.isfinite(differences(values, [Pair(0, 1, ratio)])).all()


def last(incidents: list[Incident]) -> Incident:
    assert {one.incident for one in incidents} == {1}
    return [one for one in incidents if one.status == "open"][-1]


def faults(incident: Incident) -> dict[str, tuple[str | None, str | None]]:
    return {one.feature: (one.fault, one.other) for one in incident.features}


@pytest.mark.parametrize("seed", range(5))
def test_twins_that_changed_places_are_named(seed: int) -> None:
    incident = last(watched(changed(twins_swapped, seed)))
    assert incident.verdict == "feature_broken"
    assert faults(incident) == {"a": ("swapped", "still"), "still": ("swapped", "a")}
    assert incident.summary.startswith("a and still arrive swapped since row 3,")
    (pair,) = [one for one in incident.evidence if one.side == "pair"]
    assert (pair.feature, pair.other) == ("a", "still")
    assert pair.before is not None and pair.after is not None and pair.before < 0.0 < pair.after
    assert incident.onset.earliest - 10 <= 100 + AT <= incident.onset.latest + 10


@pytest.mark.parametrize("seed", range(5))
def test_twins_with_a_symmetric_difference_cannot_be_told(seed: int) -> None:
    stream = Stream(seed)
    both = stream.inputs[:, 0].copy()
    for slot in (0, 4):
        stream.inputs[:, slot] = both + 0.05 * stream.draws.normal(size=len(both))
    stream.inputs[AT:, [0, 4]] = stream.inputs[AT:, [4, 0]]
    assert watched(stream) == []


def drifts(stream: Stream) -> None:
    stream.inputs[AT:, 4] += 0.0003 * np.arange(ROWS - AT)


def follows_no_longer(stream: Stream) -> None:
    stream.inputs[AT:, 4] = stream.draws.permutation(stream.inputs[AT:, 4])


def jumps(stream: Stream) -> None:
    stream.inputs[AT:, 4] += 0.15


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("change", [drifts, follows_no_longer, jumps])
def test_twins_that_part_are_named_and_not_called_swapped(change, seed: int) -> None:  # type: ignore[no-untyped-def]
    """The distribution of each is as before, or nearly."""
    stream = changed(twins, seed)
    change(stream)
    incident = last(watched(stream))
    assert incident.verdict == "data_moved"
    assert faults(incident) == {"a": ("apart", "still"), "still": ("apart", "a")}
    assert "a and still no longer go together since row 3," in incident.summary


@pytest.mark.parametrize("seed", range(3))
def test_a_twin_that_freezes_is_constant(seed: int) -> None:
    stream = changed(twins, seed)
    stream.inputs[AT:, 4] = stream.inputs[AT, 4]
    incident = last(watched(stream))
    assert incident.verdict == "feature_broken"
    assert faults(incident) == {"still": ("constant", None)}


def hours(draws: np.random.Generator, rows: int) -> np.ndarray:
    """Return temperatures at six hours of a day, as they rise."""
    rises = np.column_stack([draws.normal(size=rows), 0.05 * (1 + draws.random((rows, 5)))])
    return np.cumsum(rises, axis=1)


def watched_hours(inputs: np.ndarray) -> list[Incident]:
    draws, rows, features = np.random.default_rng(3), len(inputs), inputs.shape[1]
    names = [f"t{hour}" for hour in range(features)]
    block = Rows(
        0, np.arange(rows), [], names, [0] * features, inputs, draws.random(rows), [], draws.random(rows), "squared",
        None,
    )  # fmt: skip
    return list(IncidentWatch("s", 0, 7, 0.5).update(block))


@pytest.mark.parametrize("first", range(5))
def test_a_swap_is_named_whichever_features_are_watched_as_pairs(first: int) -> None:
    """Each of six features is like all others, and only three pairs are watched."""
    inputs = hours(np.random.default_rng(first), ROWS)
    inputs[AT:, [first, first + 1]] = inputs[AT:, [first + 1, first]]
    incident = last(watched_hours(inputs))
    one, other = f"t{first}", f"t{first + 1}"
    assert faults(incident) == {one: ("swapped", other), other: ("swapped", one)}


def test_a_pair_is_watched_anew_after_it_parted_for_good() -> None:
    draws = np.random.default_rng(1)
    inputs = hours(draws, 9_000)[:, :2]
    inputs[AT:, 1] += 0.2
    inputs[7_000:] = inputs[7_000:, ::-1]
    incidents = watched_hours(inputs)
    assert [(one.incident, one.status) for one in incidents if one.status != "open"] == [(1, "normal")]
    assert {one.incident: one.verdict for one in incidents} == {1: "data_moved", 2: "feature_broken"}


def test_a_pair_that_parts_again_and_again_opens_no_third_incident() -> None:
    draws = np.random.default_rng(1)
    inputs = hours(draws, 20_000)[:, :2]
    for at in range(AT, 20_000, 4_000):
        inputs[at:, 1] += 0.02  # so little that the feature alone has not moved
    assert {one.incident for one in watched_hours(inputs)} == {1, 2}


def test_features_that_come_together_later_are_a_pair() -> None:
    stream, watch = changed(twins_swapped, 1), IncidentWatch("s", 0, 7, 0.5)
    order, found = [1, 2, 3, 0, 4], list[Incident]()
    for part in (slice(0, 1_000), slice(1_000, ROWS)):
        rows, width = stream.rows(part.start, part.stop), 3 if part.stop == 1_000 else 5
        assert rows.importance is not None
        chosen = order[:width]
        found += watch.update(
            rows._replace(
                names=[rows.names[slot] for slot in chosen],
                kinds=[rows.kinds[slot] for slot in chosen],
                inputs=rows.inputs[:, chosen],
                importance=rows.importance[:, chosen],
            )
        )
    assert faults(last(found)) == {"a": ("swapped", "still"), "still": ("swapped", "a")}


@pytest.mark.parametrize("seed", range(3))
def test_a_pair_that_parts_while_its_features_have_an_incident_ends_with_it(seed: int) -> None:
    inputs = hours(np.random.default_rng(seed), ROWS + 3_000)[:, :4]
    inputs[AT:, 0] += 1.0
    inputs[AT + 800 :, 2] += 0.05
    assert watched_hours(inputs)[-1].incident >= 1
