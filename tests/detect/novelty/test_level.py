"""The share of events beyond a threshold is the nominal one, whatever the stream."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasstream.detect.novelty.level import LEAST, follow

STREAMS = st.lists(st.floats(1e-3, 1e6) | st.sampled_from([0.0, 1.0]), min_size=1, max_size=400)


@given(STREAMS, st.floats(1e-3, 1e3), st.floats(0.01, 1.0), st.floats(0.01, 0.5))
def test_no_stream_has_more_beyond_the_threshold_than_the_levels_allow(
    stream: list[float], held: float, gain: float, rate: float
) -> None:
    """The level rises with each event beyond, and never above the largest one by more than one step."""
    level, thresholds = follow(0.0, stream, held, gain, rate)
    beyond = sum(one > threshold for one, threshold in zip(stream, thresholds, strict=True))
    levels = [math.log(threshold / held) for threshold in thresholds] + [level]
    assert beyond <= rate * len(stream) + (max(levels) - min(levels)) / gain + 1e-6
    if min(levels) > LEAST + 1e-9:
        assert beyond >= rate * len(stream) - (max(levels) - min(levels)) / gain - 1e-6
    top = max(0.0, math.log(max(stream) / held)) if max(stream) > 0 else 0.0
    assert max(levels) <= top + gain + 1e-9


@given(STREAMS, st.integers(0, 400))
def test_where_events_are_cut_changes_nothing(stream: list[float], cut: int) -> None:
    whole = follow(0.3, stream, 2.0, 0.2, 0.01)
    level, first = follow(0.3, stream[:cut], 2.0, 0.2, 0.01)
    end, second = follow(level, stream[cut:], 2.0, 0.2, 0.01)
    assert (end, first + second) == whole


@pytest.mark.parametrize("indicator", [0.0, 1e300])
def test_the_level_stays_in_its_bounds(indicator: float) -> None:
    level, thresholds = follow(0.0, [indicator] * 10_000, 1e-9, 0.2, 0.01)
    assert LEAST <= level <= 710 and all(0 < one < math.inf for one in thresholds)
