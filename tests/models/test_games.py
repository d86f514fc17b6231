"""Games of predictors: their values are the Shapley values of all mixtures of the row and the background rows."""

import itertools
import math

import numpy as np
import pytest
from river import tree

from glasstream.base.errors import NotCompilable
from glasstream.events.features import FeatureTable
from glasstream.models.onnx.translate import translate
from glasstream.models.predictors.kernels import bayes_games, leaf_games
from glasstream.models.predictors.kernels.games import IDENTITY, LOG, LOGIT, SOFTMAX, HasGame
from glasstream.models.predictors.kernels.leaf_sets import leaf_sets, places
from glasstream.models.river.compile import compile_model
from tests.support.examples import some
from tests.support.model_examples import EXAMPLES
from tests.support.onnx_exports import NAMES, described, rows_for
from tests.support.random_trees import random_trees

TESTED = np.array([0.0, 1.0, 2.0, 3.0, -1.0, 0.5, np.nan])

_NOT_ADDED = {"encoded forest"}
"""Files in which several columns before the trees are made of one feature."""

LINKS = {
    "adaptive regression tree": IDENTITY,
    "adaptive tree": IDENTITY,
    "bag of regression trees": IDENTITY,
    "bag of trees": IDENTITY,
    "bag of trees that split at once": IDENTITY,
    "binarized tree": IDENTITY,
    "encoded line": IDENTITY,
    "forest": IDENTITY,
    "implicit line": IDENTITY,
    "implicit line on raw values": IDENTITY,
    "leveraging bag of trees": IDENTITY,
    "line": IDENTITY,
    "line on extremes": IDENTITY,
    "numbered tree": IDENTITY,
    "passive-aggressive line": IDENTITY,
    "patches of regression trees": IDENTITY,
    "patches of trees": IDENTITY,
    "regression tree": IDENTITY,
    "regression tree of means": IDENTITY,
    "text beside scaled numbers": IDENTITY,
    "tree": IDENTITY,
    "tree of majorities": IDENTITY,
    "tree that splits at once": IDENTITY,
    "watched bag of trees": IDENTITY,
    "large margin": LOGIT,
    "logistic": LOGIT,
    "logistic on extremes": LOGIT,
    "passive-aggressive": LOGIT,
    "perceptron": LOGIT,
    "encoded softmax": SOFTMAX,
    "softmax": SOFTMAX,
}
"""The link of the game of each example; there is none for the others."""


def shapley(answer, row, background):
    """The Shapley values of a row by their definition, from the answers for all mixtures."""
    d = row.size
    subsets = list(itertools.product((False, True), repeat=d))
    mixtures = np.array([np.where(subset, row, other) for subset in subsets for other in background])
    means = answer(mixtures).reshape(len(subsets), len(background)).mean(axis=1)
    value = dict(zip(subsets, means, strict=True))
    values = np.zeros(d)
    for subset, without in value.items():
        for k in (k for k in range(d) if not subset[k]):
            weight = math.factorial(sum(subset)) * math.factorial(d - sum(subset) - 1) / math.factorial(d)
            values[k] += weight * (value[(*subset[:k], True, *subset[k + 1 :])] - without)
    return values


def interactions(answer, row, background):
    """The Shapley interaction index of each pair of features by its definition, in the same way."""
    d = row.size
    subsets = list(itertools.product((False, True), repeat=d))
    mixtures = np.array([np.where(subset, row, other) for subset in subsets for other in background])
    means = answer(mixtures).reshape(len(subsets), len(background)).mean(axis=1)
    value = dict(zip(subsets, means, strict=True))
    pairs = np.zeros((d, d))
    for j, k in itertools.combinations(range(d), 2):
        for subset, neither in value.items():
            if subset[j] or subset[k]:
                continue
            one, other, both = ([*subset] for _ in range(3))
            one[j] = other[k] = both[j] = both[k] = True
            weight = math.factorial(sum(subset)) * math.factorial(d - sum(subset) - 2) / math.factorial(d - 1)
            pairs[j, k] += weight * (value[tuple(both)] - value[tuple(one)] - value[tuple(other)] + neither)
    return pairs


def check(predictor, game, rows, background, score):
    """Compare the game's values with those of all mixtures. `score` turns predictions into the game's scale."""
    for output in range(max(1, len(predictor.classes))):
        played = game.play(rows, np.full(len(rows), output))
        size = 1.0 + max(np.abs(score(rows)).max(), np.abs(score(background)).max())
        for i, row in enumerate(rows):
            wanted = shapley(lambda mixtures, output=output: score(mixtures)[:, output], row, background)
            assert np.abs(played.values[i] - wanted).max(initial=0) <= 1e-9 * size
            pairs = game.pairs(row[np.newaxis], np.array([output]))
            of_all = interactions(lambda mixtures, output=output: score(mixtures)[:, output], row, background)
            assert pairs.exact.all() and np.abs(pairs.values[0] - of_all).max(initial=0) <= 1e-9 * size
        assert np.abs(played.base + played.values.sum(axis=1) - played.total).max() <= 1e-9 * size
        assert np.abs(played.total - score(rows)[:, output]).max() <= 1e-9 * size
        assert played.exact.all()


@pytest.mark.parametrize("seed", some(range(25), range(150)))
def test_random_trees_with_alternates_categories_and_all_kinds_of_leaves(seed):
    random = np.random.default_rng(seed)
    predictor = random_trees(random, int(random.integers(1, 7)))
    width = len(predictor.features)
    background, rows = random.choice(TESTED, (int(random.integers(1, 9)), width)), random.choice(TESTED, (3, width))
    game = predictor.game(background)
    if game is None:
        assert predictor._sets is None or predictor._sets.most > 1 or predictor._weights.size > 1
    else:
        check(predictor, game, rows, background, lambda of: predictor.evaluate(of).values)


def test_both_kinds_of_trees_have_games_among_the_random_ones():
    games = [random_trees(np.random.default_rng(seed), 4) for seed in range(60)]
    found = {type(predictor).__name__ for predictor in games if predictor.game(np.zeros((1, 4))) is not None}
    assert found == {"ClassificationTrees", "RegressionTrees"}


SCORES = {
    IDENTITY: lambda values: values,
    LOGIT: lambda values: np.log(values) - np.log1p(-values),
    LOG: np.log,
}
"""From predictions to the scale of each link. Softmax has none: a score is known up to what all classes share."""


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_family_that_has_a_game(name, learned_examples, odd):
    example, watched = EXAMPLES[name], learned_examples[name]
    predictor = watched.compiled()
    events = odd(60, regression=not example.classification, text=example.text)
    rows = watched.rows([x for x, _ in events])[:, :7]
    game = predictor.game(rows[:6]) if isinstance(predictor, HasGame) else None
    assert (None if game is None else game.link) == LINKS.get(name)
    if game is not None and game.link in SCORES:
        check(predictor, game, rows[-3:], rows[:6], lambda of: SCORES[game.link](predictor.evaluate(of).values))


def test_features_that_are_not_tested_get_nothing_and_names_do_not_matter():
    random = np.random.default_rng(5)
    for seed in range(40):
        predictor = random_trees(np.random.default_rng(seed), 5)
        background, rows = random.choice(TESTED, (20, 7)), random.choice(TESTED, (4, 7))
        game = predictor.game(background)
        if game is None:
            continue
        played = game.play(rows, np.zeros(4, np.int64))
        assert not played.values[:, 5:].any()
        turned = predictor.game(background[::-1]).play(rows[::-1], np.zeros(4, np.int64))
        constant = game._answers.tables is None
        assert not constant or played.values[::-1].tobytes() == turned.values.tobytes()


@pytest.mark.parametrize("seed", range(12))
def test_kept_weights_are_those_of_all_pairs_to_the_last_bit(seed):
    random = np.random.default_rng(seed)
    predictor = random_trees(random, 6)
    while predictor._sets is None:
        predictor = random_trees(random, 6)
    sets = leaf_sets(predictor._branches, 6)
    background, rows = random.choice(TESTED, (20, 6)), random.choice(TESTED, (15, 6))
    of_background = np.asarray(places(sets.cut_start, sets.cut, background))
    paths = leaf_games.paths(sets, of_background)
    value = random.normal(size=(sets.leaf.size, 1))
    every = np.zeros(sets.leaf.size, np.bool_)
    for begin, leaves in zip(sets.bit_start, sets.leaves, strict=False):
        every[begin : begin + leaves] = True
    words = np.packbits(every, bitorder="little").view("<u8")[np.newaxis]
    reached, found = leaf_games.reached(sets), []
    for kept in (1 << 20, 1 << 11, 0):  # bytes: room for everything, for some patterns, and for one at a time
        weights, values = leaf_games.weights(paths, kept), np.zeros((15, 6))
        assert weights.table.nbytes + weights.pool.nbytes <= max(kept, 8 * 6)
        of_rows, none = np.asarray(places(sets.cut_start, sets.cut, rows)), np.zeros(15, np.int64)
        for _ in range(2):  # cold and warm
            values[:] = 0.0
            leaf_games.add_constant(sets, paths, weights, words, value, none, of_rows, reached, values)
        found.append(values)
    assert found[0].tobytes() == found[1].tobytes() == found[2].tobytes()
    assert found[0].tobytes() == _by_pairs(sets, paths, value, of_background, of_rows).tobytes()


def _by_pairs(sets, paths, value, background, rows):
    """The same without any cache: the definition, pair by pair, with integers of any size."""
    scale = math.lcm(*range(1, int(np.diff(paths.start).max(initial=0)) + 1))
    values = np.zeros((len(rows), 6))
    for i, row in enumerate(rows):
        for t in range(sets.words.size):
            for leaf in range(sets.leaves[t]):
                bit = sets.bit_start[t] + leaf
                path = paths.feature[paths.start[bit] : paths.start[bit + 1]].tolist()
                sums = dict.fromkeys(path, 0)
                for other in background:
                    x, b = ([_has(sets, t, leaf, of[f]) for f in path] for of in (row, other))
                    if not all(map(max, zip(x, b, strict=True))):
                        continue
                    own = [f for f, mine, theirs in zip(path, x, b, strict=True) if mine and not theirs]
                    others = [f for f, mine, theirs in zip(path, x, b, strict=True) if theirs and not mine]
                    p, n = len(own), len(others)
                    for f in own:
                        sums[f] += scale // (p * math.comb(p + n, p))
                    for f in others:
                        sums[f] -= scale // (n * math.comb(p + n, n))
                if any(sums.values()):
                    answer = value[bit, 0] * (1.0 / (float(scale) * len(background)))
                    for f in path:
                        values[i, f] += answer * float(sums[f])
    return values


def _has(sets, t, leaf, place):
    return int(sets.sets[sets.set_start[t, place] + (leaf >> 6)] >> np.uint64(leaf & 63) & np.uint64(1))


@pytest.mark.parametrize("name", NAMES)
def test_models_of_onnx_files_have_games_on_the_scale_where_they_add(name):
    file = described(name)
    try:
        predictor = translate(file)
    except NotCompilable:
        return  # onnxruntime evaluates it, and mixtures of rows explain it
    rows = rows_for(file, 40)
    rows = rows[~np.isnan(rows).any(axis=1)]
    game = predictor.game(rows[:10]) if isinstance(predictor, HasGame) else None
    if game is None:
        assert name in _NOT_ADDED
        return
    for output in range(max(1, len(predictor.classes))):
        played = game.play(rows[10:13], np.full(3, output))
        assert np.abs(played.base + played.values.sum(axis=1) - played.total).max() <= 1e-9
        if game.link == IDENTITY:
            said = predictor.evaluate(rows[10:13]).values[:, output]
            assert np.allclose(played.total, said, rtol=1e-5, atol=1e-6)
            wanted = shapley(lambda of, output=output: predictor.evaluate(of).values[:, output], rows[10], rows[:10])
            assert np.allclose(played.values[0], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("entries", [2, 3, 5])
def test_answers_of_subsets_by_products_of_odds_are_those_by_sums_of_log_odds(entries):
    random, each = np.random.default_rng(entries), entries - 1
    for many in range(7):
        size = 1 << many
        room = bayes_games.FreeRoom(
            own=np.empty(0), other=np.empty(0, np.int64), free=np.empty(0, np.int64),
            base=random.normal(size=each) * 20.0, odds=np.empty(size * each), answer=np.empty(size),
            total=np.empty(0), held=np.empty(0, np.int64), size=np.empty(0, np.int64), shares=np.empty(0),
            prior=np.empty(0), less=random.normal(size=many * each) * 30.0, both=np.empty(0),
        )  # fmt: skip
        for which in range(entries):
            bayes_games._multiply.py_func(room, each, which, many)
            products = room.answer.copy()
            bayes_games._add_up.py_func(room, each, which, many)
            np.testing.assert_allclose(products, room.answer, rtol=1e-12, atol=1e-300)


def test_a_naive_bayes_leaf_that_is_beyond_doubt_has_finite_contributions():
    """Its odds leave the range of numbers, so the log odds are added."""
    model = tree.HoeffdingTreeClassifier(leaf_prediction="nb", grace_period=10**6)
    for number in range(40):
        side = number % 2
        model.learn_one({"a": 500.0 * side + number * 1e-3, "b": -500.0 * side + number * 2e-3}, side == 1)
    table = FeatureTable()
    rows = np.array([list(table.encode(x)[0]) for x in ({"a": 0.1, "b": 0.2}, {"a": 500.1, "b": -499.9})])
    predictor = compile_model(model, table, {False: "0", True: "1"})
    game = predictor.game(rows[:1])
    played = game.play(rows[1:], np.array([1]))
    assert played.exact.all() and np.isfinite(played.values).all()
    assert played.base[0] < 1e-6 and played.total[0] > 1 - 1e-6
    assert abs(played.base + played.values.sum(axis=1) - played.total)[0] < 1e-12
