"""Contributions to single predictions of a River model: they are of the model as it is, and add up."""

import msgspec
import pandas as pd
import pytest
from river import forest, linear_model, neighbors, preprocessing, tree

from glasstream import LocalShapley
from glasstream.base.errors import ModelError, SettingsError
from tests.support.logs import event

EVENTS = [event(number) for number in range(300)]
XS = [one["x"] for one in EVENTS]
MODELS = {
    "forest": lambda: forest.ARFClassifier(n_models=3, seed=1),
    "tree": lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=1, grace_period=20),
    "linear": lambda: preprocessing.StandardScaler() | linear_model.LogisticRegression(),
}


def learned(model, count=200):
    for one in EVENTS[:count]:
        model.learn_one(numbers(one["x"]), one["y"])
    return model


def numbers(x):
    return {name: value for name, value in x.items() if not isinstance(value, str)}


@pytest.mark.parametrize("name", MODELS)
def test_contributions_add_up_to_the_prediction_of_the_model_as_it_is(name):
    model = learned(MODELS[name]())
    local = LocalShapley(model, [numbers(x) for x in XS[:50]], scale="prediction")
    for x, y in ((numbers(one["x"]), one["y"]) for one in EVENTS[200:210]):
        why = local.explain_one(x)
        said = model.predict_proba_one(x)
        assert abs(why.explained - max(said.values())) < 1e-9
        assert why.prediction == why.explained
        assert abs(why.base + sum(one.contribution for one in why.contributions) - why.explained) < 1e-9
        assert {one.feature: one.value for one in why.contributions} == {
            name: float(value) if type(value) is int else value for name, value in x.items()
        }
        model.learn_one(x, y)


def test_a_class_can_be_chosen_and_the_contributions_of_two_are_opposite():
    model = learned(MODELS["forest"]())
    local = LocalShapley(model, [numbers(x) for x in XS[:20]])
    x = numbers(XS[250])
    one, other = (local.explain_one(x, output=label) for label in sorted(model.predict_proba_one(x)))
    assert {one.output, other.output} == {"false", "true"}
    found = {part.feature: part.contribution for part in other.contributions}
    assert all(abs(part.contribution + found[part.feature]) < 1e-9 for part in one.contributions)
    with pytest.raises(ModelError, match="expected a class of"):
        local.explain_one(x, output="unheard of")


def test_a_model_that_is_not_compiled_is_explained_from_mixtures():
    model = neighbors.KNNRegressor(n_neighbors=3)
    for t in range(60):
        model.learn_one({"a": t % 5, "b": t % 7}, t % 5)
    why = LocalShapley(model, [{"a": t % 5, "b": t % 7} for t in range(10)]).explain_one({"a": 4, "b": 1})
    assert why.exact
    assert why.contributions[0].feature == "a"
    assert (
        abs(why.base + sum(one.contribution for one in why.contributions) - model.predict_one({"a": 4, "b": 1})) < 1e-9
    )


def test_features_that_appear_later_are_absent_in_the_background():
    model = learned(MODELS["forest"]())
    local = LocalShapley(model, [{"late": None, **numbers(x)} for x in XS[:20]])
    why = local.explain_one({**numbers(XS[250]), "later": 3.0})
    assert next(one for one in why.contributions if one.feature == "later").contribution == 0.0


def test_the_background_may_be_a_data_frame():
    model, rows, x = learned(MODELS["tree"]()), [numbers(x) for x in XS[:20]], numbers(XS[250])
    framed = LocalShapley(model, pd.DataFrame(rows)).explain_one(x)
    assert framed == LocalShapley(model, rows).explain_one(x)


def test_a_notebook_shows_the_sum():
    local = LocalShapley(learned(MODELS["tree"]()), [numbers(x) for x in XS[:20]])
    shown = local.explain_one(numbers(XS[250]))._repr_html_()
    assert "average event" in shown
    assert "<svg" in shown


@pytest.mark.parametrize(
    ("background", "more", "match"),
    [
        ([], {}, "expected 1 to 1,000 events, got 0"),
        ([{"a": 1}] * 1_001, {}, "got 1,001"),
        ([{"a": 1}], {"scale": "log"}, "expected one of additive, prediction, got 'log'"),
    ],
)
def test_what_cannot_be_used_is_refused(background, more, match):
    with pytest.raises(SettingsError, match=match):
        LocalShapley(linear_model.LinearRegression(), background, **more)


def test_the_largest_interactions_are_told_after_the_sum():
    model = learned(MODELS["forest"]())
    events = [numbers(x) for x in XS[:50]]
    plain, paired = (LocalShapley(model, events, pairs=pairs).explain_one(events[7]) for pairs in (0, 2))
    assert plain.pairs is None and len(paired.pairs) == 2
    assert abs(paired.pairs[0].interaction) >= abs(paired.pairs[1].interaction) > 0.0
    assert msgspec.structs.replace(paired, pairs=None) == plain
    first = paired.pairs[0]
    told = f"interactions: {first.interaction:+.3g} of {first.first} with {first.second}, "
    assert paired.sentence().startswith(f"{plain.sentence()}; {told}")
    bars = [line.split() for line in plain.waterfall()]
    assert [line.split() for line in paired.waterfall()][:-2] == bars
    assert f"interaction: {first.first} with {first.second}" in paired.waterfall()[-2]
    with pytest.raises(SettingsError, match="local Shapley pairs: expected 0 or more, got -1"):
        LocalShapley(model, events, pairs=-1)


def test_features_without_influence_are_neither_in_the_sentence_nor_in_the_waterfall():
    model = linear_model.LogisticRegression()
    for number in range(40):
        model.learn_one({"a": number % 2}, bool(number % 2))
    local = LocalShapley(model, [{"a": 0.0, "b": 0.0}, {"a": 1.0, "b": 1.0}])
    why = local.explain_one({"a": 1.0, "b": 1.0, "c": 3.0})
    assert {one.feature for one in why.contributions} == {"a", "b", "c"}
    assert " because a = 1" in why.sentence()
    assert f"(log odds of true; a probability of {why.prediction:.3g} was predicted)" in why.sentence()
    later = msgspec.structs.replace(why, prediction=why.prediction - 0.1, model_version=64)
    assert f"(log odds of true by model version 64; a probability of {later.prediction:.3g} was" in later.sentence()
    assert not any(f"{name} " in line for name in "bc" for line in [why.sentence(), *why.waterfall()])
    same = LocalShapley(model, [{"a": 1.0}]).explain_one({"a": 1.0})
    assert same.sentence().endswith("for the average event")
    assert len(same.waterfall()) == 2
