"""Corners of River's transformers that no stream reaches for certain."""

import pickle

import pytest
from river import compose, linear_model, preprocessing, tree

from glasstream.base.errors import FrameError, NotCompilable
from glasstream.models.codec import serialization, snapshot
from glasstream.models.river.compile import compile_model


def _after(watch, model, events, classification=False):
    watched = watch(model, classification)
    for x, y in events * 5:
        watched.learn(x, y)
    return watched


def _line(*before):
    return compose.Pipeline(*before, linear_model.LinearRegression())


def test_two_features_that_make_one_name(watch):
    """a_b of the text c and a of the text b_c are both a_b_c to River."""
    events = [({"a": "b_c", "a_b": "x"}, 1.0), ({"a": "d", "a_b": "c"}, 3.0), ({"a": "d", "a_b": "x"}, -2.0)]
    for drop_zeros in (False, True):
        watched = _after(watch, _line(preprocessing.OneHotEncoder(drop_zeros=drop_zeros)), events)
        watched.check([{"a": "b_c"}, {"a_b": "c"}, {"a": "b_c", "a_b": "c"}, {"a": "d"}, {}, {"a": "c"}])


def test_a_text_that_only_another_feature_has_taught_the_encoder(watch):
    watched = _after(watch, _line(preprocessing.OneHotEncoder()), [({"a": "b_c"}, 1.0), ({"a": "d", "a_b": "x"}, 3.0)])
    watched.table.encode({"a_b": "c"})
    watched.check([{"a_b": "c"}, {"a_b": "x"}])


def test_the_two_zeros_are_one_category_and_two_names(watch):
    for first, second in ((0.0, -0.0), (-0.0, 0.0)):
        events = [({"a": first}, 1.0), ({"a": second}, 5.0), ({"a": 1.5}, -1.0)]
        for model in (_line(preprocessing.OneHotEncoder()), preprocessing.OneHotEncoder() | _tree()):
            _after(watch, model, events).check([{"a": 0.0}, {"a": -0.0}, {"a": 1.5}, {"a": 2.5}, {}])


def _tree():
    return tree.HoeffdingTreeRegressor(grace_period=5, delta=0.5, leaf_prediction="mean")


@pytest.mark.parametrize("drop_zeros", [True, False])
def test_categories_that_are_given(drop_zeros, watch):
    categories = {"word": {"red", "blue"}, "flag": {True}, "size": {1, 2.5, 0.0}}
    events = [
        ({"word": "red", "flag": True, "size": 1.0}, 1.0),
        ({"word": "green", "flag": False, "size": 2.5}, 4.0),
        ({"word": "blue", "flag": True, "size": -0.0}, 9.0),
    ]
    watched = _after(watch, _line(preprocessing.OneHotEncoder(categories=categories, drop_zeros=drop_zeros)), events)
    watched.table.encode({"word": "black"})
    watched.check(
        [
            {"word": "blue"},
            {"word": "black"},
            {"flag": True},
            {"size": 1.0},
            {"size": 0.0},
            {"size": -0.0},
            {"word": "no"},
            {},
        ]
    )


def test_codes_that_are_given(watch):
    codes = {"word": {"red": 3, "blue": 4}, "size": {1.0: 7, 2.5: 8, "x": 9}}
    events = [({"word": "red", "size": 2.5}, 1.0), ({"word": "no", "size": 9.0}, 4.0)]
    for unknown in (0, -5):
        encoder = preprocessing.OrdinalEncoder(categories=codes, unknown_value=unknown)
        watched = _after(watch, _line(encoder), events)
        watched.table.encode({"word": "blue"})
        watched.check([{"word": "blue", "size": 1.0}, {"size": 2.0}, {"word": "n"}, {}])


def test_categories_of_categories(watch):
    """Codes, of which categories are made, which are scaled."""
    events = [({"word": word, "flag": word == "b"}, float(len(word))) for word in ("a", "b", "ccc", "a")]
    model = _line(preprocessing.OrdinalEncoder(), preprocessing.OneHotEncoder(), preprocessing.StandardScaler())
    _after(watch, model, events).check([{"word": "a"}, {"word": "ccc", "flag": True}, {"word": "never"}, {}])


@pytest.mark.parametrize("turned", [False, True])
def test_of_one_name_in_a_union_the_first_that_is_there_counts(turned, watch):
    """a_b_c, now from the text of a, now from that of a_b, and always from the zeros of a third."""
    parts = [
        compose.Discard("a") | preprocessing.OneHotEncoder(drop_zeros=True),
        compose.Discard("a_b") | preprocessing.OneHotEncoder(drop_zeros=True),
        compose.Discard("a_b") | preprocessing.OneHotEncoder(),
    ]
    union = compose.TransformerUnion(*(reversed(parts) if turned else parts))
    events = [({"a": "b_c", "a_b": "x"}, 1.0), ({"a": "d", "a_b": "c"}, 3.0), ({"a": "d", "a_b": "x"}, -2.0)]
    watched = _after(watch, _line(union), events)
    watched.check([{"a": "b_c"}, {"a_b": "c"}, {"a": "b_c", "a_b": "c"}, {"a": "d"}, {}, {"a": "never"}])


def test_a_name_that_is_now_a_dummy_and_now_a_number_is_named(watch):
    """One an int, one a float: what stands behind may tell them apart."""
    union = (compose.SelectType(str) | preprocessing.OneHotEncoder(drop_zeros=True)) + compose.SelectType(float)
    watched = _after(watch, union | _tree(), [({"a": "x", "a_x": 7.0}, 1.0), ({"a": "y", "a_x": 3.0}, 2.0)])
    with pytest.raises(NotCompilable, match="now from one of its parts"):
        watched.compiled()


def test_pipelines_in_pipelines(watch):
    inner = preprocessing.StandardScaler() | linear_model.LinearRegression()
    model = compose.Pipeline(preprocessing.MinMaxScaler(), inner)
    events = [({"a": 1.0, "b": 4.0}, 1.0), ({"a": 3.0, "b": -1.0}, 4.0), ({"a": 2.0, "b": 0.0}, 2.0)]
    _after(watch, model, events).check([{"a": 1.5, "b": 0.5}, {"a": 9.0}, {}])


@pytest.mark.parametrize(
    "scaler", [preprocessing.MinMaxScaler, preprocessing.MaxAbsScaler, preprocessing.StandardScaler]
)
def test_scalers_over_a_window(scaler, watch):
    events = [({"a": float(i % 7), "b": float(i * i % 5)}, float(i)) for i in range(30)]
    _after(watch, _line(scaler(window_size=9)), events).check([{"a": 1.5, "b": 0.5}, {"a": 9.0}, {}])


def test_text_before_a_scaler_is_named(watch):
    watched = watch(preprocessing.MinMaxScaler() | linear_model.LinearRegression(), False)
    watched.table.encode({"word": "x"})
    with pytest.raises(NotCompilable, match="a MinMaxScaler calculates with 'word'"):
        watched.compiled()


def test_steps_that_nothing_is_made_of_are_left_out(watch):
    union = compose.SelectType(float) + (preprocessing.StandardScaler() | compose.Discard("a", "b"))
    watched = _after(watch, union | _tree(), [({"a": 1.0, "b": 2.0}, 1.0), ({"a": 2.0, "b": 5.0}, 2.0)])
    assert watched.compiled()._steps.kind.size == 0


def test_compiling_leaves_transformers_as_they_were(watch):
    """They are full of defaultdicts that grow when they are read."""
    model = _line(
        compose.TransformerUnion(
            compose.SelectType(str) | preprocessing.OneHotEncoder(),
            compose.SelectType(float) | preprocessing.MinMaxScaler() | preprocessing.StandardScaler(),
            compose.SelectType(float) | preprocessing.OrdinalEncoder(),
            compose.SelectType(float) | preprocessing.MaxAbsScaler(),
        )
    )
    watched = _after(watch, model, [({"a": 1.0, "w": "x"}, 1.0)])
    watched.table.encode({"new": 3.0, "other": "text"})
    before = pickle.dumps(model)
    watched.compiled()
    assert pickle.dumps(model) == before


def test_predictors_in_each_other_without_end_are_refused(watch):
    watched = _after(watch, preprocessing.MinMaxScaler() | _tree(), [({"a": 1.0}, 1.0)])
    predictor = compile_model(watched.model, watched.table, None)
    for _ in range(serialization.DEPTH - 1):
        predictor = type(predictor)(predictor.features, predictor._steps, predictor)
    deep = {"stream": "s", "epoch": 0, "version": 1, "key": None}
    snapshot.decode(snapshot.encode(predictor, **deep), key=None)
    deeper = type(predictor)(predictor.features, predictor._steps, predictor)
    with pytest.raises(FrameError, match="at most 16 predictors"):
        snapshot.decode(snapshot.encode(deeper, **deep), key=None)
