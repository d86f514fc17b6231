"""The protocols of 003: what is searched, what is held back, and how an indicator is judged."""

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="pip install 'glasstream[gbmap]'")

from glasstream.errors import InputError
from glasstream.gbmap.settings import PAPER_DRIFT
from glasstream.gbmap.table import Table
from glasstream.research.gbmap_paper.contestants import CONTESTANTS, Contestant, Fitted
from glasstream.research.gbmap_paper.drift import FEWEST, area, drift
from glasstream.research.gbmap_paper.table4 import STAGED, drawn, parted, score


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
    tried = [drawn("gbmap", False, draws) for _ in range(2_000)]
    assert {one["n_learners"] for one in tried} == {150}
    assert {one["max_iter"] for one in tried} == {200, 400}
    assert 1 <= min(one["beta"] for one in tried) < 1.1 and 19.9 < max(one["beta"] for one in tried) <= 20
    assert 0 <= min(one["ridge"] for one in tried) < 1e-4 and 0.0099 < max(one["ridge"] for one in tried) <= 0.01
    boosted = [drawn("boosting", True, draws) for _ in range(2_000)]
    assert {one["max_depth"] for one in boosted} == {1, 2, 3, 4, 5}
    assert {one["max_iter"] for one in boosted} == {2_000}
    assert all(1 <= drawn("linear", True, draws)["C"] <= 1e5 for _ in range(100))
    assert all(1e-5 <= drawn("linear", False, draws)["alpha"] <= 1 for _ in range(100))


@pytest.mark.parametrize("classes", [False, True])
def test_a_score_is_that_of_the_best_candidate_on_rows_held_back(classes: bool) -> None:
    data = table(90, classes=classes)
    found = score(data, "linear", 1, 3, seed=5)
    draws = np.random.Generator(np.random.PCG64([5, 1, 1]))
    assert found.parameters in [drawn("linear", classes, draws) for _ in range(3)]
    train, test = parted(90, 1, 5)
    alone = Fitted.of(
        "linear", data.rows[train], data.targets[train], classification=classes, categorical=(3,),
        parameters=found.parameters,
    )  # fmt: skip
    assert found.test == alone.score(data.rows[test], data.targets[test])
    assert found == score(data, "linear", 1, 3, seed=5)


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize(("contestant", "name", "fewest"), [("gbmap", "n_learners", 2), ("boosting", "max_iter", 100)])
def test_every_number_of_learners_is_judged_as_a_fit_of_so_many(
    monkeypatch: pytest.MonkeyPatch, contestant: Contestant, name: str, fewest: int, classes: bool
) -> None:
    data, most = table(90, classes=classes), fewest + 3
    parameters = {"max_iter": 20} | {name: most}
    monkeypatch.setattr("glasstream.research.gbmap_paper.table4.drawn", lambda *_: parameters)
    found = score(data, contestant, 1, 2, folds=3)
    cuts = np.array_split(parted(90, 1, 0)[0], 3)
    means = {}
    for number in range(fewest, most + 1):
        scores = []
        for held in range(3):
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
        (table(200, classes=True), "expected a number as target, got classes"),
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
