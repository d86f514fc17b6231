"""The experiments of the iPDP paper on streams with a drift."""

import numpy as np
import pytest
from river import tree

from glasstream.explain.sampling.settings import GridSettings
from glasstream.models.river.catalogue import ClassesInOrder
from glasstream_lab.papers.experiment import Request
from glasstream_lab.papers.ipdp_california import FEATURE, California, Fitted, compare
from glasstream_lab.papers.ipdp_streams import BLOCK, Agrawal, Elec2, Hyperplane, _Stream, follow
from glasstream_lab.papers.models import ScikitLearnPredictor
from glasstream_lab.papers.streams import HYPERPLANES


def test_the_curve_follows_the_known_effect_and_batch_pdp() -> None:
    model = tree.HoeffdingAdaptiveTreeClassifier(seed=1)
    model.classes = ClassesInOrder()
    stream = _Stream(("x_1", "x_2"), *HYPERPLANES[0].events(2_000, seed=1), (1_000, 2_000))
    followed = follow(model, stream, "x_1", GridSettings(grid="extremes", points=5, window=500), seed=1)
    assert [one["events"] for one in followed.kept] == [1_000, 2_000]
    assert len(followed.importance) in (2_000 - BLOCK, 2_000 - BLOCK - 1)
    newest = followed.kept[1]
    assert newest["rise"] > 0.6 and newest["iPFI"] > 0.05
    assert newest["grid"][0] < 60 and newest["grid"][-1] > 140
    assert (
        newest["distance"] == pytest.approx(np.abs(np.array(newest["curve"]) - np.array(newest["batch"])).mean())
        and newest["distance"] < 0.25
    )
    squares = ((np.array(newest["curve"]) - np.mean(newest["curve"])) ** 2).sum()
    assert followed.importance[-1] == pytest.approx(squares)


def test_an_effect_that_does_not_turn_around_is_told() -> None:
    def result(rise: float) -> dict[str, float]:
        return {f"{key} {n}": value for n, sign in ((20_000, 1.0), (40_000, rise))
                for key, value in (("rise", sign), ("distance", 0.01), ("iPFI", 0.3))}  # fmt: skip

    def verdicts(rise: float) -> list[str]:
        return [row.verdict for row in Hyperplane().rows([({"seed": k}, result(rise + k / 100)) for k in range(3)])]

    assert verdicts(-0.95)[3] == "holds" and verdicts(0.9)[3].startswith("differs")


def test_the_nearest_alarm_stands_beside_each_of_the_paper() -> None:
    whole = {"alarms": [21_900, 30_000, 36_500, 43_900], "before": 0.0}
    task = {"data": "elec2", "events": None}
    rows = Elec2().rows([(task, whole), (task, whole)])
    assert [row.ours for row in rows] == [0.0, 21_900, 36_500, 43_900, 4]
    quick = Elec2().rows([(task | {"events": 24_000}, whole)])
    assert [row.ours for row in quick] == [0.0, 21_900, 4]


def test_agrawal_changes_its_concept_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Agrawal, "concept", 400)
    task = {"seed": 1}
    result = Agrawal().work(None, task)
    kept = result["kept"]
    assert [one["events"] for one in kept] == [400, 800, 1_200]
    assert kept[2]["grid"][-1] > 155_000 > kept[1]["grid"][-1]
    rows = Agrawal().rows([(task, result)])
    assert [row.ours for row in rows] == [one["distance"] for one in kept] and max(row.ours for row in rows) < 0.2


class Falling:
    """The model 3 x_2 - 2 Longitude."""

    def predict(self, rows: np.ndarray) -> np.ndarray:
        return 3.0 * rows[:, 1] - 2.0 * rows[:, 0]


def test_the_distance_from_batch_pdp_is_a_share_of_its_range() -> None:
    rows = np.random.Generator(np.random.PCG64(1)).uniform(0.0, 1.0, (900, 2))
    one = Fitted(ScikitLearnPredictor(Falling(), (FEATURE, "x_2")), rows, 0.8)
    result = compare(one, FEATURE, 600, seed=2)
    assert (result["grid"][0], result["grid"][-1]) == pytest.approx((rows[:, 0].min(), rows[:, 0].max()), abs=0.02)
    # of a model without interactions the curve is off by a constant, which is what x_2 adds
    apart = np.array(result["curve"]) - np.array(result["batch"])
    assert np.ptp(apart) < 0.02
    assert result["distance"] == pytest.approx(np.abs(apart).mean() / np.ptp(result["batch"]))
    assert result["rise"] == pytest.approx(-1.0, abs=0.02) and 0.0 < result["distance"] < 0.1


def test_a_curve_that_rises_with_the_longitude_is_told() -> None:
    task = California().tasks(Request(None, 1))[0]
    said = {"R2": 0.8, "distance": 0.01, "rise": 0.9}
    rows = California().rows([(task, said), (task, said | {"rise": 0.8})])
    assert [row.verdict.split()[0] for row in rows] == ["holds", "holds", "worse"]
