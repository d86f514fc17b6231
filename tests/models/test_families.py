"""Every family that is compiled says what River says, to 1e-9, at every moment of the learning and on every row."""

import random

import numpy as np
import pytest

from tests.models.conftest import example_events, mixed, odd_rows
from tests.support.examples import some
from tests.support.model_examples import CLASSIFIERS, EXAMPLES, LEAVES, REGRESSORS, encoded

MOMENTS = 20
ROWS = 500
CLASSIFICATION_SETS = ("elec2", "keystroke", "adult", "german_credit")
"""Numbers only; four classes; absent cells and categories; categories."""
REGRESSION_SETS = ("bike_hourly", "california_housing", "abalone", "air_quality")
"""Numbers only; numbers only; a category; numbers, and cells that the test takes out."""


COMPOSED = {
    "tree of majorities",
    "bag of trees that split at once",
    "bag of adaptive trees",
    "bag of scaled softmax",
    "patches of naive Bayes",
    "logistic on extremes",
    "one vs rest, trees",
    "one vs rest, passive-aggressive",
    "encoded naive Bayes",
    "everything encoded",
    "binarized tree",
    "text beside scaled numbers",
    "selected",
    "regression tree of means",
    "patches of scaled lines",
    "line on extremes",
    "encoded regression tree",
}
"""Examples whose families other examples stand for: one data set and fewer odd rows are enough for them."""


def _streams(examples, sets, one):
    """Every example follows one of the data sets; that all of them follow all is a long test."""
    names = [name for name, example in examples.items() if not example.selects]
    return some(
        [(name, one) for name in names],
        [(name, data) for name in names for data in ((one,) if name in COMPOSED else sets)],
    )


def _follow(watched, events):
    """Follow a stream like `follow`, with fewer rows at each moment. Unusual rows have a test of their own."""
    due = {round(len(events) ** (k / 8)) for k in range(9)}
    due |= set(np.linspace(len(events) / (MOMENTS - 6), len(events), MOMENTS - 6, dtype=int).tolist())
    assert len(due) >= MOMENTS
    for count, (x, y) in enumerate(events, 1):
        watched.learn(x, y)
        if count in due:
            recent = [x for x, _ in events[max(0, count - 6) : count + 6]]
            watched.check([*recent, *mixed(recent, count, 10), {}])


def _thinned(events):
    """One cell in ten taken out."""
    rng = random.Random(3)
    return [({key: value for key, value in x.items() if rng.random() > 0.1}, y) for x, y in events]


def _watched(watch, example, events):
    text = any(isinstance(value, str) for x, _ in events for value in x.values())
    model = example.make()
    watched = watch(model if example.text or not text else encoded() | model, example.classification)
    if example.binary:
        watched.labels = {False: "no", True: "yes"}
    return watched


@pytest.mark.parametrize("name", [name for name in EXAMPLES if not EXAMPLES[name].selects])
def test_it_follows_a_stream_of_odd_events(name, watch, follow, odd):
    example = EXAMPLES[name]
    events = example_events(example, odd(160, regression=not example.classification, text=example.text))
    follow(_watched(watch, example, events), events, 4)


@pytest.mark.parametrize("name", EXAMPLES)
def test_odd_rows(name, learned_examples, odd):
    example = EXAMPLES[name]
    events = odd(300, regression=not example.classification, text=example.text)
    answered = learned_examples[name].check_odd(odd_rows([x for x, _ in events], 1, 150))
    assert answered > (60 if example.selects else 120)


@pytest.mark.slow
@pytest.mark.parametrize("count", [2_000, pytest.param(10_000, marks=pytest.mark.long)])
@pytest.mark.parametrize("name", EXAMPLES)
def test_many_odd_rows_a_family(name, count, learned_examples, odd):
    example = EXAMPLES[name]
    events = odd(300, regression=not example.classification, text=example.text)
    count = min(count, 1_000) if name in COMPOSED else count
    learned_examples[name].check_odd(odd_rows([x for x, _ in events], 2, count))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "data"), _streams(CLASSIFIERS, CLASSIFICATION_SETS, "adult"))
def test_it_follows_a_classified_data_set(name, data, watch, data_set):
    example = CLASSIFIERS[name]
    events = example_events(example, data_set(data, ROWS))
    _follow(_watched(watch, example, events), events)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "data"), _streams(REGRESSORS, REGRESSION_SETS, "abalone"))
def test_it_follows_a_data_set_of_numbers(name, data, watch, data_set):
    events = data_set(data, ROWS, regression=True)
    events = _thinned(events) if data == "air_quality" else events
    _follow(_watched(watch, REGRESSORS[name], events), events)


@pytest.mark.slow
@pytest.mark.parametrize("place", [pytest.param(n, marks=() if n == 2 else pytest.mark.long) for n in range(4)])
@pytest.mark.parametrize("name", LEAVES)
def test_leaves_of_every_kind_follow_a_data_set(name, place, watch, data_set):
    example = LEAVES[name]
    if example.classification:
        events = data_set(CLASSIFICATION_SETS[place], 400)
    else:
        data = REGRESSION_SETS[place]
        events = data_set(data, 400, regression=True)
        events = _thinned(events) if data == "air_quality" else events
    _follow(_watched(watch, example, events), events)


@pytest.mark.parametrize("name", ["selected"])
def test_features_that_are_selected(name, watch, odd):
    example = EXAMPLES[name]
    watched = watch(example.make(), example.classification)
    events = example_events(example, odd(400, text=False))
    for number, (x, y) in enumerate(events, 1):
        watched.learn(x, y)
        if number % 40 == 1:
            rows = mixed([x for x, _ in events[:number]], number, 30)
            watched.check([dict.fromkeys(example.selects, 0.5) | x for x in rows])
