"""The generic predictor: any River model, row by row."""

import numpy as np
import pytest
from river import base, compose, forest, linear_model, naive_bayes, neighbors, preprocessing, tree

from glasstream.base.errors import ModelError
from glasstream.events.features import FeatureTable
from glasstream.events.limits import IngestLimits
from glasstream.models.predictors.checks import check_splits
from glasstream.models.river.generic import GenericPredictor


class _LabelsOnly(base.Classifier):
    def learn_one(self, x, y):
        self.last = y

    def predict_one(self, x):
        return self.last if "size" in x else None


class _Contrary(naive_bayes.GaussianNB):
    """Says something else than the first of its largest probabilities."""

    def predict_one(self, x):
        return min(self.predict_proba_one(x).items(), key=lambda item: item[1])[0]


class _Raises(base.Regressor):
    def learn_one(self, x, y):
        pass

    def predict_one(self, x):
        raise ValueError("no")


def _after(watch, odd, model, classification, text=True):
    watched = watch(model, classification)
    events = odd(400, regression=not classification, text=text)
    for x, y in events:
        watched.learn(x, y)
    return watched, [x for x, _ in events[-60:]]


@pytest.mark.parametrize(
    ("make", "classification", "text"),
    [
        (lambda: forest.ARFClassifier(n_models=3, seed=1), True, True),
        (lambda: tree.HoeffdingTreeRegressor(leaf_prediction="mean"), False, True),
        (lambda: compose.SelectType(float) | naive_bayes.GaussianNB(), True, True),
        (
            lambda: compose.SelectType(str) | preprocessing.OneHotEncoder() | linear_model.LinearRegression(),
            False,
            True,
        ),
        (lambda: neighbors.KNNRegressor(), False, False),
        (lambda: compose.SelectType(float) | _Contrary(), True, True),
    ],
)
def test_it_says_what_river_says(make, classification, text, watch, odd):
    watched, xs = _after(watch, odd, make(), classification, text)
    predictor = watched.generic()
    said, wanted = check_splits(predictor, watched.rows(xs)), watched.river(xs)
    assert np.array_equal(said.values, wanted.values)
    assert said.labels.tolist() == wanted.labels.tolist()
    assert not predictor.compiled


def test_the_events_are_rebuilt_as_they_were(watch, odd):
    """Numbers as float, booleans as bool, texts as text, absent features not at all."""
    seen = []

    class Remembers(base.Regressor):
        def learn_one(self, x, y):
            pass

        def predict_one(self, x):
            seen.append(x)
            return 0.0

    watched, xs = _after(watch, odd, Remembers(), False)
    rows = watched.rows(xs)
    watched.generic().evaluate(rows)
    assert seen == xs
    assert [[type(value) for value in x.values()] for x in seen] == [
        [type(x[name]) for name in watched.table.names if name in x] for x in xs
    ]


def test_rows_of_numbers_alone_and_with_gaps_are_rebuilt_as_they_were():
    seen = []

    class Seeing(base.Regressor):
        def learn_one(self, x, y):
            pass

        def predict_one(self, x):
            seen.append(dict(x))
            return 0.0

    table = FeatureTable(IngestLimits())
    table.encode({"a": 1.0, "b": 2.0})
    predictor = GenericPredictor(Seeing(), table, None)
    predictor.evaluate(np.array([[1.0, 2.0], [np.nan, 3.0]]))
    predictor.evaluate(np.array([[4.0], [np.nan]]))  # from before b came
    assert seen == [{"a": 1.0, "b": 2.0}, {"b": 3.0}, {"a": 4.0}, {}]
    assert all(list(x) == sorted(x) for x in seen)


def test_an_unseen_category_is_a_text_of_its_own(watch, odd):
    watched, _ = _after(watch, odd, forest.ARFClassifier(n_models=3, seed=1), True)
    predictor = watched.generic()
    rows = watched.rows([{"colour": "never", "town": "nowhere"}])
    assert np.array_equal(predictor.evaluate(rows).values, watched.river([{"colour": "x", "town": "y"}]).values)


def test_a_model_with_labels_only(watch, odd):
    watched, _ = _after(watch, odd, _LabelsOnly(), True)
    said = watched.generic().evaluate(watched.rows([{"size": 1.0}, {"weight": 1.0}]))
    assert said.labels.tolist()[1] == -1
    assert said.values.sum(axis=1).tolist() == [1.0, 0.0]
    assert said.values[0, said.labels[0]] == 1.0


def test_a_model_that_raises_is_named(watch):
    predictor = GenericPredictor(_Raises(), watch(None, False).table, None)
    with pytest.raises(ModelError, match="the model raised ValueError: no"):
        predictor.evaluate(np.zeros((1, 0)))


def test_a_model_that_cannot_travel_is_named(watch):
    class Local(_Raises):
        pass

    with pytest.raises(ModelError, match="Local cannot be pickled"):
        GenericPredictor(Local(), watch(None, False).table, None).pickled()
