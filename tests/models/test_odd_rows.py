"""Rows that no stream has, made by hypothesis: extreme numbers, absent features, categories never seen."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.models.conftest import Made
from tests.support.examples import examples
from tests.support.model_examples import EXAMPLES

NUMBER = st.one_of(st.floats(-12, 12), st.sampled_from([0.0, -0.0, 5.0, 1e-300, -1e6, 1e9]))
TEXT = st.sampled_from(["red", "green", "blue", "grey", "t0", "t1", "t9", "never seen", ""])
NUMBERS = {"size": NUMBER, "weight": NUMBER, "open": st.booleans(), "late": NUMBER, "never seen": NUMBER}
TEXTS = {"colour": TEXT, "town": TEXT}
ALL = st.lists(st.fixed_dictionaries({}, optional=NUMBERS | TEXTS), min_size=1, max_size=8)
WITHOUT_TEXT = st.lists(st.fixed_dictionaries({}, optional=NUMBERS), min_size=1, max_size=8)


@pytest.fixture(scope="module")
def compiled(learned_examples):
    """By example: its predictor. The tables grow on, as an explainer's do beyond those of a snapshot."""
    return Made(lambda name: learned_examples[name].compiled())


def _check(name, learned_examples, compiled, data):
    xs = data.draw(ALL if EXAMPLES[name].text else WITHOUT_TEXT)
    learned_examples[name].check_odd(xs, compiled[name])


@pytest.mark.parametrize("name", EXAMPLES)
@examples(8)
@given(data=st.data())
def test_it_says_what_river_says(name, learned_examples, compiled, data):
    _check(name, learned_examples, compiled, data)


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
@examples(60)
@given(data=st.data())
def test_it_says_what_river_says_of_many(name, learned_examples, compiled, data):
    """Over all examples more than 10,000 rows; `test_families` adds as many for each from a faster source."""
    _check(name, learned_examples, compiled, data)


@pytest.mark.parametrize("name", EXAMPLES)
@examples(8)
@given(values=st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=3, max_size=30))
def test_no_number_in_any_slot_breaks_a_predictor(name, compiled, values):
    """Codes below 0, beyond every category or not whole, infinities: the category is unseen, the result has a form."""
    predictor = compiled[name]
    width = len(predictor.features)
    rows = np.resize(np.array(values), (4, width))
    said = predictor.evaluate(rows)
    assert said.values.shape == (4, max(len(predictor.classes), 1))
    assert np.all(said.labels < max(len(predictor.classes), 1))
