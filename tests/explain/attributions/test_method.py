"""The method in the plain loop: which events are explained, against which rows, and what their records hold."""

import math
from collections import Counter

import msgspec
import numpy as np
import orjson
import pytest

from glasstream.app.configuration import load
from glasstream.base.errors import SettingsError
from glasstream.explain.attributions.method import Attributions
from glasstream.flow.reference import Encoded
from glasstream_topics import attributions, events
from glasstream_topics.requests import AttributionOptions
from tests.support.late_labels import apart, delays
from tests.support.logs import event
from tests.support.odd_labels import odd
from tests.support.random_trees import random_trees

BASE = (
    "model.task=classification", "explain.reservoir=10", "publish.every=25", "snapshot.doubling=8",
    "snapshot.cadence=20", "snapshot.target=0", "block.rows=8", "explain.methods=ipfi,attributions",
    "attributions.rows=12", "attributions.refresh=30",
)  # fmt: skip
COUNT = 150
MADE = [event(number) for number in range(COUNT)]
LATE = apart(MADE, delays("random:30", COUNT))
NEVER = [{name: part for name, part in one.items() if name != "y" or one["id"] < 30} for one in MADE]
"""Events of which only the first ones have labels."""


def published(log, *more, model="tree", size=7):
    settings = load(assignments=[*BASE, f"model.name={model}", *more])
    values = [orjson.dumps(log[at : at + size]) for at in range(0, len(log), size)]
    found = {}
    for topic, record in Encoded(settings).run((b"s", value) for value in [*values, events.FLUSH]):
        found.setdefault(topic, []).append(record)
    return found


def explained(*arguments, **more):
    return [attributions.decode(one) for one in published(*arguments, **more).get("attributions", [])]


@pytest.mark.parametrize("model", ["tree", "linear", "forest"])
def test_contributions_add_up_and_say_which_rows_they_are_compared_with(model):
    records = explained(MADE, model=model)
    assert [one.seq for one in records] == list(range(10, COUNT))
    for one in records:
        total = one.base + sum(part.contribution for part in one.contributions) + one.others
        assert abs(total - one.explained) < 1e-9
        assert one.link == ("logit" if model == "linear" else "identity")
        assert one.background.event == max(10, one.seq // 30 * 30)
        assert one.background.rows == min(12, one.background.event)
        assert one.exact
        assert {part.feature: part.value for part in one.contributions}.items() <= MADE[one.seq]["x"].items()
    assert any(part.contribution for one in records for part in one.contributions)


@pytest.mark.parametrize("log", [MADE, LATE, NEVER], ids=["labelled", "late", "never"])
@pytest.mark.parametrize("model", ["tree", "linear"])
def test_every_event_is_explained_once_when_it_arrives_however_it_is_packed(log, model):
    whole = published(log, model=model, size=len(log))
    seqs = [attributions.decode(one).seq for one in whole["attributions"]]
    assert seqs == list(range(seqs[0], COUNT))
    for size, rows in ((1, 8), (50, 3)):
        assert published(log, f"block.rows={rows}", model=model, size=size) == whole


@pytest.mark.parametrize("log", [MADE, LATE, NEVER], ids=["labelled", "late", "never"])
@pytest.mark.parametrize("size", [1, 50])
def test_what_was_predicted_is_what_the_topic_of_predictions_says(log, size):
    found = published(log, size=size)
    told = {one["seq"]: one for one in map(orjson.loads, found["predictions"])}
    records = [attributions.decode(one) for one in found["attributions"]]
    assert len(records) > 100
    for one in records:
        assert one.output == told[one.seq]["prediction"]
        assert one.prediction == told[one.seq]["probabilities"][one.output]


def test_strange_events_are_explained_too():
    strange = [{key: it for key, it in odd(n).items() if key != "y" or n % 3} for n in range(100)]
    whole = published(strange, model="forest", size=100)
    assert len(whole["attributions"]) > 50
    assert published(strange, "block.rows=3", model="forest", size=1) == whole


def test_other_methods_do_not_depend_on_it():
    alone = published(MADE, "explain.methods=ipfi")
    together = published(MADE)
    own = [one for one in together["importance"] if orjson.loads(one)["method"] == "ipfi"]
    assert own == alone["importance"]
    assert together["predictions"] == alone["predictions"]


def test_importance_is_the_smoothed_size_of_the_contributions():
    found = published(MADE, "attributions.largest=100", "publish.every=1000")
    (record,) = [orjson.loads(one) for one in found["importance"] if orjson.loads(one)["method"] == "attributions"]
    records = [attributions.decode(one) for one in found["attributions"]]
    assert record["n"] == len(records) == COUNT - 10
    for name, feature in record["features"].items():
        raw = 0.0
        for one in records:
            size = sum(abs(part.contribution) for part in one.contributions if part.feature == name)
            raw += 0.001 * (size - raw)
        assert abs(feature["raw"] - raw) < 1e-12


def test_a_share_of_the_events_is_the_same_whatever_else_is_chosen():
    half = explained(MADE, "attributions.share=0.5")
    assert 50 < len(half) < 90
    every = {one.seq: one for one in explained(MADE)}
    assert all(every[one.seq] == one for one in half)


def test_a_class_and_bounds_choose_by_the_prediction():
    every = explained(MADE)
    name = every[-1].output
    chosen = explained(MADE, f"attributions.output={name}", "attributions.low=0.5", "attributions.high=0.9")
    assert chosen == [one for one in every if one.output == name and 0.5 <= one.prediction <= 0.9]
    assert 0 < len(chosen) < len(every)


def test_the_scale_of_predictions_is_that_of_probabilities():
    records, odds = explained(MADE, "attributions.scale=prediction", model="linear"), explained(MADE, model="linear")
    assert {one.link for one in records} == {"identity"}
    for one, other in zip(records, odds, strict=True):
        assert abs(one.explained - 1.0 / (1.0 + math.exp(-other.explained))) < 1e-9


def test_the_largest_contributions_come_first_and_the_others_are_summed_up():
    every, few = explained(MADE, "attributions.largest=100"), explained(MADE, "attributions.largest=1")
    for whole, part in zip(every, few, strict=True):
        sizes = [abs(one.contribution) for one in whole.contributions]
        assert sizes == sorted(sizes, reverse=True)
        assert part.contributions == whole.contributions[:1]
        assert abs(part.others - sum(one.contribution for one in whole.contributions[1:]) - whole.others) < 1e-12


@pytest.mark.parametrize("model", ["tree", "forest"])
def test_the_memory_for_weights_changes_no_byte(model):
    assert published(MADE, "attributions.cache=1", model=model) == published(MADE, model=model)


def test_attributors_of_few_streams_are_kept_each_with_its_part_of_the_memory():
    method = Attributions()
    asked = AttributionOptions("additive", "", -1.0, 1.0, cache=6)
    predictors = [random_trees(np.random.default_rng(seed), 3) for seed in range(3)]
    for stream in "abcdefgh":
        made = [method._attributor(one, np.zeros((5, 3)), asked, stream) for one in predictors]
        assert method._attributor(predictors[-1], np.zeros((5, 3)), asked, stream) is made[-1]
        assert method._attributor(predictors[0], np.zeros((5, 3)), asked, stream) is not made[0]
        games = [one._game for one in made if one._game is not None]
        assert games and all(game._cache_bytes == 3 << 20 for game in games)
    assert Counter(one.stream for one in method._made) == dict.fromkeys("efgh", 2)


@pytest.mark.parametrize(
    "wrong",
    [
        "share=0",
        "rows=0",
        "rows=1001",
        "refresh=0",
        "scale=log",
        "largest=0",
        "pairs=-1",
        "pairs=21",
        "cache=0",
        "cache=4097",
        "low=nan",
        "high=nan",
    ],
)
def test_settings_out_of_range_are_refused(wrong):
    with pytest.raises(SettingsError, match=f"attributions.{wrong.partition('=')[0]}"):
        load(assignments=[f"attributions.{wrong}"])


def test_bounds_between_which_no_prediction_lies_are_refused():
    with pytest.raises(SettingsError, match=r"attributions\.low: expected at most attributions\.high = 0\.1, got 0\.9"):
        load(assignments=["attributions.low=0.9", "attributions.high=0.1"])
    load(assignments=["attributions.low=0.5", "attributions.high=0.5"])


@pytest.mark.parametrize("model", ["tree", "forest"])
def test_the_largest_interactions_are_added_to_records_that_are_otherwise_the_same(model):
    without, few, every = (
        explained(MADE, f"attributions.pairs={most}", "attributions.largest=100", model=model) for most in (0, 2, 20)
    )
    assert any(one.pairs for one in few) and all(one.pairs is None for one in without)
    for plain, two, many in zip(without, few, every, strict=True):
        pairs = many.pairs or []
        sizes = [abs(one.interaction) for one in pairs]
        assert sizes == sorted(sizes, reverse=True) and (two.pairs or []) == pairs[:2]
        assert msgspec.structs.replace(many, pairs=None) == plain
        assert len({frozenset((one.first, one.second)) for one in pairs}) == len(pairs)


@pytest.mark.parametrize("log", [MADE, NEVER], ids=["labelled", "never"])
def test_interactions_do_not_depend_on_how_events_are_packed(log):
    whole, parts = (published(log, "attributions.pairs=3", size=size)["attributions"] for size in (len(log), 4))
    assert whole == parts


def test_a_sum_of_terms_has_no_interactions():
    assert all(one.pairs is None for one in explained(MADE, "attributions.pairs=5", model="linear"))
    on_probabilities = explained(MADE, "attributions.pairs=5", "attributions.scale=prediction", model="linear")
    assert any(one.pairs for one in on_probabilities)
