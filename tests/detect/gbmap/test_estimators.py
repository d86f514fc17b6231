"""The estimators by scikit-learn's own checks, and what they add."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import estimator_checks_generator

import glasstream.detect.gbmap
from glasstream.base.errors import FrameError, InputError
from glasstream.detect.gbmap.estimators import GBMAPClassifier, GBMAPRegressor
from glasstream.detect.gbmap.map import BoostedMap
from tests.support.gbmap_examples import classes, cosines, generator

CHECKS = [
    check
    for estimator in (GBMAPRegressor(n_learners=3, max_iter=50), GBMAPClassifier(n_learners=3, max_iter=50))
    for check in estimator_checks_generator(estimator)
]


@pytest.mark.parametrize(
    ("estimator", "check"), CHECKS, ids=[f"{type(e).__name__}-{c.func.__name__}-{i}" for i, (e, c) in enumerate(CHECKS)]
)
@pytest.mark.filterwarnings("ignore")
def test_scikit_learns_checks_pass(estimator: object, check: object) -> None:
    check(clone(estimator))  # type: ignore[operator]


def test_without_scikit_learn_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn", None)
    monkeypatch.setitem(sys.modules, "sklearn.base", None)
    monkeypatch.delitem(sys.modules, "glasstream.detect.gbmap.estimators")
    with pytest.raises(InputError, match=r"not installed; pip install 'glasstream\[gbmap\]'"):
        importlib.import_module("glasstream.detect.gbmap.estimators")


def test_only_the_estimators_need_scikit_learn() -> None:
    folder = Path(glasstream.detect.gbmap.__path__[0])
    needing = [path.name for path in sorted(folder.glob("*.py")) if "sklearn" in path.read_text()]
    assert needing == ["estimators.py"]


def three_classes(n: int) -> tuple[np.ndarray, np.ndarray]:
    x = generator(1).normal(size=(n, 3))
    return x, np.array(["a", "b", "c"])[np.digitize(x[:, 0] + np.abs(x[:, 1]), [0.0, 1.0])]


def test_a_regression_is_learned_in_the_targets_own_units() -> None:
    x = generator(1).normal(size=(500, 3))
    y = 1e6 + 1e4 * np.abs(x[:, 0])
    model = GBMAPRegressor(n_learners=5).fit(x, y)
    assert model.score(x, y) > 0.9
    parts = model.maps_[0].initial + model.transform(x).sum(axis=1)
    assert np.abs(parts - model.predict(x)).max() <= 1e-9 * 1e6


def test_the_units_of_rows_and_target_do_not_matter() -> None:
    x, y = cosines(300, 3)
    plain = GBMAPRegressor(n_learners=4).fit(x, y).predict(x)
    scaled = GBMAPRegressor(n_learners=4).fit(1024 * x, 4096 * y).predict(1024 * x) / 4096
    assert scaled == pytest.approx(plain, rel=1e-6, abs=1e-6)


def test_two_classes_are_told_apart_and_their_probabilities_add_up() -> None:
    x = generator(1).normal(size=(500, 3))
    y = np.where(np.abs(x[:, 0]) + x[:, 1] > 0.8, "yes", "no")
    model = GBMAPClassifier(n_learners=6).fit(x, y)
    assert model.score(x, y) > 0.95
    assert model.predict_proba(x).sum(axis=1) == pytest.approx(np.ones(500), abs=1e-15)
    assert ((model.predict_proba(x)[:, 1] > 0.5) == (model.predict(x) == "yes")).all()
    assert model.transform(x).shape == (500, 6)


def test_three_classes_have_a_map_each() -> None:
    x, y = three_classes(600)
    model = GBMAPClassifier(n_learners=5).fit(x, y)
    assert model.score(x, y) > 0.9
    assert len(model.maps_) == 3
    assert model.transform(x).shape == (600, 15)
    assert model.predict_proba(x).sum(axis=1) == pytest.approx(np.ones(600), abs=1e-14)
    assert len(model.get_feature_names_out()) == 15


@pytest.mark.parametrize("f0", [None, 0.3])
def test_the_stages_of_a_fit_are_the_fits_of_fewer_learners(f0: float | None) -> None:
    x, classes = three_classes(120)
    for model, y in ((GBMAPRegressor(f0=f0), x[:, 0] ** 2), (GBMAPClassifier(f0=f0), classes)):
        stages = list(model.set_params(n_learners=4).fit(x, y).staged_predict(x))
        assert len(stages) == 4
        for number, stage in enumerate(stages, 1):
            alone = model.set_params(n_learners=number).fit(x, y).predict(x)
            assert (stage == alone).all() if y is classes else np.allclose(stage, alone, rtol=1e-12)


def test_the_stages_of_maps_of_different_lengths_go_on_to_the_longest() -> None:
    x, y = three_classes(150)
    model = GBMAPClassifier(n_learners=12, held_out=0.3, patience=1).fit(x, y)
    lengths = [one.learners for one in model.maps_]
    stages = list(model.staged_predict(x))
    assert len(set(lengths)) > 1 and len(stages) == max(lengths)
    assert (stages[-1] == model.predict(x)).all()


def test_boosting_from_a_model_learns_what_it_leaves() -> None:
    x, y = cosines(300, 3)
    model = GBMAPRegressor(n_learners=3, f0=lambda rows: y * 0 + 50 * rows[:, 1]).fit(x, y + 50 * x[:, 1])
    alone = GBMAPRegressor(n_learners=3).fit(x, y)
    assert model.transform(x) == pytest.approx(alone.transform(x), rel=1e-6, abs=1e-6)
    assert model.predict(x) == pytest.approx(alone.predict(x) + 50 * x[:, 1], rel=1e-6, abs=1e-6)


def test_without_scale_the_map_is_on_the_rows_as_they_are() -> None:
    x, y = cosines(300, 3)
    model = GBMAPRegressor(n_learners=3, scale=False).fit(x, y)
    found: BoostedMap = model.maps_[0]
    assert model.encoding_ is None
    assert found.initial == 0.0
    assert found.beta == 5.0
    assert model.predict(x).tobytes() == found.predict(x).tobytes()


def test_categories_are_encoded_one_column_for_each() -> None:
    x, y = cosines(300, 2)
    codes = generator(1).integers(0, 3, size=300)
    table = np.column_stack((x, codes))
    model = GBMAPRegressor(n_learners=8, categories=[2]).fit(table, y + np.array([0.0, 30.0, -20.0])[codes])
    assert model.maps_[0].features == 5
    assert model.score(table, y + np.array([0.0, 30.0, -20.0])[codes]) > 0.9
    assert model.attributions(table).shape == (300, 5)


def test_attributions_are_refused_where_there_are_several_maps() -> None:
    x, y = three_classes(100)
    with pytest.raises(ValueError, match="expected one map, got 3"):
        GBMAPClassifier(n_learners=2).fit(x, y).attributions(x)


def test_a_stored_regressor_gives_the_same_bits() -> None:
    x, y = cosines(100, 3)
    x[3, 1] = np.nan
    for model in (GBMAPRegressor(n_learners=3, f0=2.5), GBMAPRegressor(n_learners=3, scale=False, f0=2.5)):
        rows = np.nan_to_num(x) if not model.scale else x
        read = GBMAPRegressor.from_bytes(model.fit(rows, y).to_bytes())
        assert read.predict(rows).tobytes() == model.predict(rows).tobytes()
        assert read.transform(rows).tobytes() == model.transform(rows).tobytes()


def test_a_stored_classifier_gives_the_same_bits() -> None:
    for x, y in (three_classes(200), classes(200, 3)):
        model = GBMAPClassifier(n_learners=3).fit(x, y)
        read = GBMAPClassifier.from_bytes(model.to_bytes())
        assert read.predict_proba(x).tobytes() == model.predict_proba(x).tobytes()
        assert read.predict(x).tolist() == model.predict(x).tolist()


def test_bytes_of_the_other_estimator_are_refused() -> None:
    x, y = cosines(100, 3)
    data = GBMAPRegressor(n_learners=2).fit(x, y).to_bytes()
    with pytest.raises(FrameError, match="expected a stored GBMAPClassifier"):
        GBMAPClassifier.from_bytes(data)
    with pytest.raises(FrameError):
        GBMAPRegressor.from_bytes(data[:-1])


def test_a_parameter_out_of_range_is_a_value_error_that_says_so() -> None:
    with pytest.raises(ValueError, match="expected beta > 0 and finite, got -1"):
        GBMAPRegressor(beta=-1.0).fit(*cosines(20, 2))


def test_a_random_state_object_seeds_the_fit() -> None:
    x, y = cosines(200, 5)
    made = [
        GBMAPRegressor(n_learners=2, held_out=0.3, random_state=np.random.RandomState(seed)).fit(x, y)
        for seed in (1, 1, 2)
    ]
    assert made[0].predict(x).tobytes() == made[1].predict(x).tobytes() != made[2].predict(x).tobytes()
