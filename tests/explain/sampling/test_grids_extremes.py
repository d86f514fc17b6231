"""Row 9 of the table of numbers anyone can check: the window's extremes equal brute force on every kind of stream."""

import numpy as np
import pytest

from glasstream.explain.sampling.extremes import Extremes

COUNT = 3_000
RNG = np.random.Generator(np.random.PCG64(9))
STREAMS = {
    "gaussian": RNG.normal(size=COUNT),
    "sawtooth": np.arange(COUNT) % 37.0,
    "rising": np.arange(COUNT, dtype=float),
    "falling": -np.arange(COUNT, dtype=float),
    "constant": np.full(COUNT, 3.0),
    "steps": np.repeat(RNG.normal(size=COUNT // 50), 50),
    "with gaps": np.where(RNG.random(COUNT) < 0.7, np.nan, RNG.normal(size=COUNT)),
}


def brute_force(values: np.ndarray, window: int) -> np.ndarray:
    """(rows, 2): of the rows before each one, as far as the window reaches."""
    found = np.full((len(values), 2), np.nan)
    for row in range(1, len(values)):
        seen = values[max(0, row - window) : row]
        seen = seen[~np.isnan(seen)]
        if len(seen):
            found[row] = seen.min(), seen.max()
    return found


@pytest.mark.parametrize("window", [1, 2, 20, 500])
@pytest.mark.parametrize("stream", STREAMS)
def test_row_9_window_extremes_equal_brute_force(stream: str, window: int) -> None:
    values = STREAMS[stream]
    kept = Extremes.empty(window)
    kept.widen(1)
    out = np.full((COUNT, 2, 1), np.nan)
    kept.pass_through(values.reshape(-1, 1), np.array([0]), 0, 0, out)
    np.testing.assert_array_equal(out[:, :, 0], brute_force(values, window))


def test_queues_hold_no_more_than_the_window() -> None:
    kept = Extremes.empty(100)
    kept.widen(2)
    values = np.column_stack((STREAMS["rising"], STREAMS["gaussian"]))
    kept.pass_through(values, np.array([0, 1]), 0, 0, np.empty((COUNT, 2, 2)))
    assert kept.size.max() == 100 == kept.rows.shape[2]
    state = kept.state()
    assert len(state["rows"]) == len(state["values"]) == kept.size.sum() < 150


def test_an_infinite_value_does_not_enter() -> None:
    kept = Extremes.empty(5)
    kept.widen(1)
    out = np.empty((3, 2, 1))
    kept.pass_through(np.array([[1.0], [np.inf], [-np.inf]]), np.array([0]), 0, 0, out)
    assert out[2, :, 0].tolist() == [1.0, 1.0]
