"""Features with few values have changed places only if their labels say so, too."""

import numpy as np
import pytest

from glasstream.detect.incidents.betting import BINS
from glasstream.detect.incidents.exchange import Labels, log_odds
from glasstream.detect.incidents.histogram import Histogram
from glasstream.detect.incidents.watch import IncidentWatch, Rows
from glasstream_topics.incidents import Incident

AT, ROWS = 3_000, 4_500
OFTEN, SELDOM = 0.9, 0.45
"""Shares of rows in which `often` and `seldom` are 1 before the change."""


def flags(draws: np.random.Generator, rows: int, often: float, seldom: float) -> np.ndarray:
    return np.column_stack([draws.random(rows) < often, draws.random(rows) < seldom, draws.normal(size=rows)]) * 1.0


def labels_of(draws: np.random.Generator, inputs: np.ndarray) -> np.ndarray:
    return (draws.random(len(inputs)) < 0.1 + 0.7 * inputs[:, 1]).astype(float)


def watched(draws: np.random.Generator, inputs: np.ndarray, target: np.ndarray) -> list[Incident]:
    rows = Rows(
        0, np.arange(ROWS), [], ["often", "seldom", "number"], [0, 0, 0], inputs, target, ["no", "yes"],
        draws.random(ROWS), "brier", None,
    )  # fmt: skip
    return [one for one in IncidentWatch("s", 0, 7, 0.5).update(rows) if one.status == "open"]


@pytest.mark.parametrize("seed", range(5))
def test_shares_that_become_those_of_another_feature_are_no_exchange(seed: int) -> None:
    draws = np.random.default_rng(seed)
    inputs = np.concatenate([flags(draws, AT, OFTEN, SELDOM), flags(draws, ROWS - AT, SELDOM, OFTEN)])
    *_, last = watched(draws, inputs, labels_of(draws, inputs))
    assert {one.feature: one.fault for one in last.features} == {"often": "shifted", "seldom": "shifted"}
    assert last.verdict in ("data_moved", "labels_shifted")


@pytest.mark.parametrize("seed", range(5))
def test_flags_that_changed_places_are_found_by_their_labels(seed: int) -> None:
    draws = np.random.default_rng(seed)
    inputs = flags(draws, ROWS, OFTEN, SELDOM)
    target = labels_of(draws, inputs)
    inputs[AT:, :2] = inputs[AT:, 1::-1]
    *_, last = watched(draws, inputs, target)
    assert last.verdict == "feature_broken"
    assert {one.feature: one.other for one in last.features} == {"often": "seldom", "seldom": "often"}


def histogram(values: np.ndarray, labels: np.ndarray, block: int = 1) -> Histogram:
    """Return values with a bin for each of at most 16 different ones."""
    edges = np.unique(values)
    empty = Histogram(edges, np.zeros(BINS), np.zeros(BINS), np.zeros(BINS), block)
    counts = np.bincount(empty.bins(values), minlength=BINS).astype(float)
    answer = np.bincount(empty.bins(values), labels, minlength=BINS) / np.maximum(1.0, counts)
    return empty._replace(counts=counts, answer=answer)


def odds(values: int, *, exchanged: bool, labels_follow: bool, block: int = 1, seed: int = 1) -> float:
    """Return the log odds of two features with some number of values that change places, or do not change at all."""
    draws = np.random.default_rng(seed)
    shares = np.linspace(1.0, 3.0, values) / np.linspace(1.0, 3.0, values).sum()
    first, second = draws.choice(values, 2_150, p=shares), draws.choice(values, 2_150, p=shares[::-1])
    labels = (draws.random(2_150) < np.where(first > second, 0.9, 0.1)).astype(float)
    if not labels_follow:
        labels[2_000:] = draws.permutation(labels[2_000:])
    old, new = slice(0, 2_000), slice(2_000, None)
    befores = [histogram(one[old].astype(float), labels[old], block) for one in (first, second)]
    now = [one[new].astype(float) for one in ((second, first) if exchanged else (first, second))]
    known = Labels(labels[new], float(labels[old].mean()), float(labels[old].var()))
    assert log_odds(befores, now, known) == pytest.approx(log_odds(befores[::-1], now[::-1], known))
    return log_odds(befores, now, known)


@pytest.mark.parametrize("values", [2, 3, 4, 8, 16])
@pytest.mark.parametrize("seed", range(3))
def test_the_odds_tell_an_exchange_from_none(values: int, seed: int) -> None:
    assert odds(values, exchanged=True, labels_follow=True, seed=seed) > 0.0
    assert odds(values, exchanged=False, labels_follow=True, seed=seed) < 0.0


@pytest.mark.parametrize("seed", range(3))
def test_more_values_and_labels_say_more(seed: int) -> None:
    """Where the labels follow no rule, the shares alone decide, and those of two values cannot say much."""
    alone = [odds(values, exchanged=True, labels_follow=False, seed=seed) for values in (2, 4, 16)]
    assert alone == sorted(alone) and alone[0] < 4.0 < alone[2]
    assert odds(2, exchanged=True, labels_follow=True, seed=seed) > alone[0] + 3.0


def test_rows_that_resemble_their_neighbours_say_less() -> None:
    single, blocks = (odds(16, exchanged=True, labels_follow=True, block=block) for block in (1, 5))
    assert 0.0 < blocks < single
