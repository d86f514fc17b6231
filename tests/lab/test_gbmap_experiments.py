"""The protocols of 003: what is searched, what is held back, and how an indicator is judged."""

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="pip install 'glasstream[gbmap]'")

from glasstream.base.errors import InputError
from glasstream.detect.gbmap.settings import PAPER_DRIFT
from glasstream_lab.gbmap.table import Table
from glasstream_lab.papers.experiment import Request
from glasstream_lab.papers.gbmap_contestants import CONTESTANTS, Contestant, Fitted, parted
from glasstream_lab.papers.gbmap_drift import FEWEST, Drift, area, drift
from glasstream_lab.papers.gbmap_knn import PAPER, Knn, scores
from glasstream_lab.papers.gbmap_sets import FILES, SETS, cosines
from glasstream_lab.papers.gbmap_table3 import PAPER as SECONDS
from glasstream_lab.papers.gbmap_table3 import Table3
from glasstream_lab.papers.gbmap_table4 import STAGED, Table4, drawn, score
from glasstream_lab.papers.gbmap_table5 import PAPER as FEATURE_SCORES
from glasstream_lab.papers.gbmap_table5 import Table5
from glasstream_lab.papers.gbmap_table5 import scores as feature_scores
from glasstream_lab.papers.gbmap_views import LEAST, MOST, Views, apart, clusters


def generator(seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def table(n: int, *, classes: bool = False) -> Table:
    """|x_0| + x_1, and a category that adds to it; x_2 means nothing."""
    draws = generator(n)
    rows = np.column_stack((draws.normal(size=(n, 3)), draws.integers(0, 2, n)))
    y = np.abs(rows[:, 0]) + rows[:, 1] + rows[:, 3]
    names = ("bent", "slope", "noise", "kind")
    if classes:
        return Table(names, rows, (3,), (y > 1).astype(float), ("low", "high"))
    return Table(names, rows, (3,), y)


def test_the_area_is_the_share_of_pairs_in_order() -> None:
    draws = generator(3)
    for _ in range(20):
        scores, positive = draws.integers(0, 6, 40).astype(float), draws.uniform(size=40) < 0.3
        above = scores[positive][:, None] - scores[~positive][None, :]
        assert area(scores, positive) == pytest.approx(((above > 0) + 0.5 * (above == 0)).mean(), abs=1e-12)


def test_an_area_needs_both_sorts() -> None:
    with pytest.raises(InputError, match="expected rows above the quantile and below it"):
        area(np.arange(4.0), np.zeros(4, bool))


def test_no_row_is_trained_on_and_tested() -> None:
    train, test = parted(103, 4, 7)
    assert len(test) == 26 and sorted([*train, *test]) == list(range(103))
    assert parted(103, 4, 7)[1].tolist() == test.tolist() != parted(103, 5, 7)[1].tolist()


def test_candidates_are_within_the_ranges_of_table_2() -> None:
    assert STAGED == {"gbmap": ("n_learners", 2), "boosting": ("max_iter", 100)}  # and all more, up to what is drawn
    draws = generator(0)
    tried = [drawn("gbmap", draws) for _ in range(2_000)]
    assert {one["n_learners"] for one in tried} == {150}
    assert {one["max_iter"] for one in tried} == {200, 400}
    assert 1 <= min(one["beta"] for one in tried) < 1.1 and 19.9 < max(one["beta"] for one in tried) <= 20
    assert 0 <= min(one["ridge"] for one in tried) < 1e-4 and 0.0099 < max(one["ridge"] for one in tried) <= 0.01
    boosted = [drawn("boosting", draws) for _ in range(2_000)]
    assert {one["max_depth"] for one in boosted} == {1, 2, 3, 4, 5}
    assert {one["max_iter"] for one in boosted} == {2_000}
    assert all(1 <= drawn("linear", draws)["C"] <= 1e5 for _ in range(100))
    assert drawn("least squares", draws) == {}


@pytest.mark.parametrize("contestant", ["linear", "least squares"])
def test_a_score_is_that_of_the_best_candidate_on_rows_held_back(contestant: Contestant) -> None:
    classes = contestant == "linear"
    data = table(90, classes=classes)
    found = score(data, contestant, 1, 3, seed=5)
    draws = np.random.Generator(np.random.PCG64([5, 1, 1]))
    assert found.parameters in [drawn(contestant, draws) for _ in range(3)]
    train, test = parted(90, 1, 5)
    alone = Fitted.of(
        contestant, data.rows[train], data.targets[train], classification=classes, categorical=(3,),
        parameters=found.parameters,
    )  # fmt: skip
    assert found.test == alone.score(data.rows[test], data.targets[test])
    assert found == score(data, contestant, 1, 3, seed=5)


def test_a_search_on_a_part_of_the_rows_does_not_see_the_others() -> None:
    data = table(200, classes=True)
    train, _ = parted(200, 0, 0)
    rows = data.rows.copy()
    rows[train[60:]] = 1e6
    spoilt = Table(data.names, rows, (3,), data.targets, data.classes)
    found, other = (score(one, "linear", 0, 2, folds=3, searched=60) for one in (data, spoilt))
    assert found.validation == other.validation and found.parameters == other.parameters
    assert score(spoilt, "linear", 0, 2, folds=3).validation != found.validation


@pytest.mark.parametrize(("classes", "scored"), [(False, None), (True, None), (False, 1)])
@pytest.mark.parametrize(("contestant", "name", "fewest"), [("gbmap", "n_learners", 2), ("boosting", "max_iter", 100)])
def test_every_number_of_learners_is_judged_as_a_fit_of_so_many(
    monkeypatch: pytest.MonkeyPatch, contestant: Contestant, name: str, fewest: int, classes: bool, scored: int | None
) -> None:
    data, most = table(90, classes=classes), fewest + 3
    parameters = {"max_iter": 20} | {name: most}
    monkeypatch.setattr("glasstream_lab.papers.gbmap_table4.drawn", lambda *_: parameters)
    found = score(data, contestant, 1, 2, folds=3, scored=scored)
    cuts = np.array_split(parted(90, 1, 0)[0], 3)
    means = {}
    for number in range(fewest, most + 1):
        scores = []
        for held in range(scored or 3):
            rest = np.concatenate([cut for fold, cut in enumerate(cuts) if fold != held])
            fitted = Fitted.of(
                contestant, data.rows[rest], data.targets[rest], classification=classes, categorical=(3,),
                parameters=parameters | {name: number}, seed=1,
            )  # fmt: skip
            scores.append(fitted.score(data.rows[cuts[held]], data.targets[cuts[held]]))
        means[number] = np.mean(scores)
    assert found.validation == pytest.approx(max(means.values()), abs=1e-12)
    assert means[found.parameters[name]] == pytest.approx(found.validation, abs=1e-12)
    assert found.parameters == parameters | {name: found.parameters[name]}


@pytest.mark.parametrize("classes", [False, True])
def test_every_contestant_can_be_fitted_with_gaps_and_categories(classes: bool) -> None:
    data = table(80, classes=classes)
    rows = data.rows.copy()
    rows[::7, 1] = np.nan
    for contestant in CONTESTANTS:
        fitted = Fitted.of(contestant, rows, data.targets, classification=classes, categorical=(3,))
        assert fitted.score(rows, data.targets) > 0.5
        assert set(fitted.predict(rows)) <= {0.0, 1.0} or not classes


def test_rows_beyond_what_a_model_knows_are_told_of() -> None:
    """The lower half rises with both features, the upper one, apart from it, does not rise any more."""
    draws = generator(8)
    order = np.concatenate((draws.uniform(-3.0, -0.5, 200), draws.uniform(0.5, 3.0, 200)))
    rows = np.column_stack((order, order + 0.02 * draws.normal(size=400)))
    data = Table(("order", "copy"), rows, (), np.minimum(order, 0.0))
    found = drift(data, 0, PAPER_DRIFT)
    assert found.drift > 0.0 and found.gbmap > 0.9
    assert 0.0 < found.positives < 1.0
    assert found.stated <= 0.05 and abs(found.flagged - found.stated) < 0.05
    assert found == drift(data, 0, PAPER_DRIFT) != drift(data, 1, PAPER_DRIFT)


def test_the_score_of_two_classes_beyond_what_a_model_knows_is_told_of() -> None:
    """The classes depend on the copy of the order alone, and in the upper half the order has another scale."""
    draws = generator(4)
    order = np.sort(draws.normal(size=1_200))
    copy = order + 0.3 * draws.normal(size=1_200) + np.where(order > 0.0, 4.0 * order, 0.0)
    targets = (draws.uniform(size=1_200) < 1 / (1 + np.exp(-copy))).astype(float)
    data = Table(("order", "copy"), np.column_stack((order, copy)), (), targets, ("no", "yes"))
    found = drift(data, 0, feature="order", by_score=True)
    assert found.gbmap > 0.8 and 0.0 < found.positives < 1.0
    assert found == drift(data, 0, feature="order", by_score=True)
    by_loss = drift(data, 0, feature="order")
    assert by_loss.drift == found.drift and by_loss.positives < found.positives


def test_a_feature_whose_lower_half_is_of_one_class_does_not_split() -> None:
    order = generator(6).normal(size=(400, 2))
    data = Table(("first", "second"), order, (), (order[:, 0] > np.median(order[:, 0])).astype(float), ("low", "high"))
    assert drift(data, 0).feature == "second"
    with pytest.raises(InputError, match="expected a feature whose lower half has rows of both classes"):
        drift(data, 0, feature="first")


def test_the_cosines_are_those_of_the_paper() -> None:
    numbers, classes = (cosines(4_000, 5, classes=sort) for sort in (False, True))
    basis = np.column_stack((np.cos(numbers.rows), np.ones(4_000)))
    weights, left, *_ = np.linalg.lstsq(basis, numbers.targets)
    assert left[0] < 1e-18 and np.linalg.norm(weights[:5]) == pytest.approx(5.0)
    assert numbers.targets.mean() == pytest.approx(0.0, abs=1e-12)
    assert np.array_equal(classes.rows, numbers.rows)
    chance = 1 / (1 + np.exp(-numbers.targets))
    assert np.mean(classes.targets - chance) == pytest.approx(0.0, abs=0.03)
    assert np.corrcoef(classes.targets, chance)[0, 1] > 0.5


def test_only_scores_of_the_same_kind_of_model_stand_beside_the_paper() -> None:
    experiment = Table4()
    tasks = experiment.tasks(Request(None, 2, choices={"candidates": "100"}))
    rows = experiment.rows([(task, {"test": 0.5 + 0.1 * task["split"]}) for task in tasks])
    papers = {row.number: row.paper for row in rows}
    assert len(rows) == 3 * len(SETS)
    assert papers["abalone, GBMAP"] == 0.577 and papers["abalone, least squares"] == 0.526
    assert papers["pima_diabetes, logistic regression"] == 0.775
    assert papers["abalone, histogram gradient boosting"] is None
    assert any("XGBoost" in line and "abalone 0.535" in line for line in experiment.settings)
    assert {task["candidates"] for task in tasks if SETS[task["data"]].generated} == {10}


def test_the_drift_table_names_the_features_and_judges_both_indicators() -> None:
    found = {"feature": "lread", "gbmap": 0.9, "euclidean": 0.84, "flagged": 0.04, "stated": 0.05}
    results = [
        ({"data": "cpu_small", "seed": 0}, found),
        ({"data": "cpu_small", "seed": 1}, {**found, "gbmap": 0.88, "euclidean": 0.5, "feature": "runqsz"}),
    ]
    gbmap, euclidean, flags = Drift().rows(results)
    assert gbmap.number == "cpu_small without lread (1), runqsz (1): GBMAP"
    assert (gbmap.paper, gbmap.verdict, euclidean.paper) == (0.91, "holds", 0.84)
    assert flags.paper is None and flags.ours == pytest.approx(0.8)
    assert Drift().figure(results).axes
    assert {
        task["data"] for task in Drift().tasks(Request(None, 1, choices={"start": "rows", "loss": "score"}))
    } == set(FILES)


def test_a_split_is_by_numbers_only() -> None:
    found = drift(table(FEWEST), 0)
    assert found.feature in ("bent", "slope", "noise")
    assert drift(table(FEWEST), 0, feature="noise").feature == "noise"
    for name in ("kind", "other"):
        with pytest.raises(InputError, match=f"expected a number among bent, slope, noise, kind .* got '{name}'"):
            drift(table(FEWEST), 0, feature=name)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (table(FEWEST - 1), "expected at least 160 rows, got 159"),
        (
            Table(("a", "b"), np.zeros((200, 2)), (), np.zeros(200), ("x", "y", "z")),
            "expected a number or two classes as target, got 3 classes",
        ),
        (Table(("a",), np.zeros((200, 1)), (), np.zeros(200)), "expected at least 2 features"),
        (Table(("a", "b"), np.zeros((200, 2)), (0, 1), np.zeros(200)), "a number among them"),
    ],
)
def test_what_cannot_be_split_is_refused(data: Table, message: str) -> None:
    with pytest.raises(InputError, match=message):
        drift(data, 0)


@pytest.mark.parametrize("classes", [False, True])
def test_boosting_of_many_rows_draws_its_bins_by_the_seed_alone(classes: bool) -> None:
    draws = generator(5)
    rows = draws.normal(size=(200_001, 1))
    targets = (rows[:, 0] > 0.5).astype(float) if classes else np.abs(rows[:, 0])
    found = [
        Fitted.of("boosting", rows, targets, classification=classes, parameters={"max_iter": 1}, seed=seed)
        .model._bin_mapper.bin_thresholds_[0]
        .tobytes()
        for seed in (0, 0, 1)
    ]
    assert found[0] == found[1] != found[2]


@pytest.mark.parametrize("classes", [False, True])
def test_with_noise_the_embedding_distance_predicts_better_than_the_euclidean_one(classes: bool) -> None:
    rows = generator(7).normal(size=(240, 12))
    y = np.abs(rows[:, 0]) + rows[:, 1]
    targets, kinds = ((y > 0.8).astype(float), ("low", "high")) if classes else (y, ())
    euclidean, embedding = scores(Table(tuple("abcdefghijkl"), rows, (), targets, kinds), 0, 1)
    assert embedding > euclidean


def test_the_papers_scores_of_neighbours_are_of_the_same_data_sets() -> None:
    assert set(PAPER) == set(SETS)
    tasks = Knn().tasks(Request(None, 2, choices={"candidates": "50"}))
    rows = Knn().rows([(task, {"euclidean": 0.6, "embedding": 0.8}) for task in tasks])
    assert {row.number: row.paper for row in rows}["concrete, embedding"] == 0.871 and len(rows) == 2 * len(SETS)


def test_times_are_those_of_the_sizes_and_methods_asked_for() -> None:
    one = Table3()
    small = one.tasks(Request(None, 1, choices={"sizes": "small"}))
    assert len(one.tasks(Request(None, 1, choices={"sizes": "all"}))) == 2 * len(SECONDS) > len(small)
    for method in ("gbmap", "pca"):
        assert one.work(None, {"method": method, "rows": 300, "features": 5, "seed": 0})["seconds"] > 0.0
    results = [(task, {"seconds": task["rows"] / 1e6}) for task in small]
    shown = {row.number: row for row in one.rows([*results, *results])}
    assert len(shown) == len(small) + 2
    assert shown["gbmap, growth with the rows"].ours == pytest.approx(1.0)
    assert shown["gbmap, 100,000 rows, 400 features"].paper == 7.8


@pytest.mark.parametrize("classes", [False, True])
def test_more_components_are_better_features_than_the_principal_ones(classes: bool) -> None:
    data = table(400, classes=classes)
    result = feature_scores(data, (2, 4, 8), 1, 2)
    assert result["gbmap 8"] > result["gbmap 2"] - 0.05 and "pca 8" not in result
    assert result["gbmap 8"] > result["linear"] + 0.03
    assert result["pca 4"] <= result["linear"] + 0.02, "a rotation of the features tells a linear model nothing new"
    assert result == feature_scores(data, (2, 4, 8), 1, 2)


def test_the_search_for_beta_sees_no_test_row() -> None:
    data = table(200)
    _, test = parted(200, 0, 0, 0.5)
    targets = data.targets.copy()
    targets[test] = -targets[test]
    spoilt = Table(data.names, data.rows, (3,), targets)
    found, other = (feature_scores(one, (2, 4), 0, 3) for one in (data, spoilt))
    assert found["betas"] == other["betas"] and found["gbmap 4"] != other["gbmap 4"]


def test_table_5_has_a_row_for_each_number_of_the_paper() -> None:
    for name, methods in FEATURE_SCORES.items():
        result = {f"{method} {size}": 0.5 for method in methods for size in (2, 8, 12, 16, 32, 64, 128)}
        rows = Table5().rows([({"data": name}, result)] * 2)
        assert [row.paper for row in rows] == [theirs for numbers in methods.values() for theirs, _ in numbers]


def test_clusters_that_differ_in_irrelevant_features_merge() -> None:
    found = clusters(150, 1)
    assert found["embedding b1 b2"] < 0.5 < 1.0 < found["embedding a b2"]
    assert min(found["original space b1 b2"], found["original space a b2"]) > 5.0
    points = generator(1).normal(size=(40, 2))
    assert apart(points, points + 3.0) == pytest.approx(apart(10.0 * points, 10.0 * points + 30.0))
    assert apart(points, points) == 0.0


def test_a_local_explanation_that_misses_the_papers_feature_is_told() -> None:
    distances = {f"{space} {pair}": 0.1 for space in ("embedding", "original space") for pair in ("b1 b2", "a b2")}
    result = {**distances, "rank": 1, "names": [MOST, LEAST], "shares": [0.9, 0.01]}
    assert {row.verdict for row in Views().rows([({}, result)] * 2)} == {"holds", ""}
    wrong = result | {"rank": 2, "shares": [0.5, 0.5], "embedding b1 b2": 4.0}
    assert sum(row.verdict.startswith("worse") for row in Views().rows([({}, wrong)] * 2)) == 3
