"""The frame of the papers' experiments: declarations, tables, and the models that the experiments explain."""

import numpy as np
import pytest
from click.testing import CliRunner

from glasstream.app.command.cli import cli
from glasstream.base.errors import NotCompilable
from glasstream.events.features import FeatureTable
from glasstream.models.river.compile import compile_model
from glasstream_lab.papers.comparison import Row, to_csv, to_markdown
from glasstream_lab.papers.experiment import PAPERS, Request
from glasstream_lab.papers.registry import EXPERIMENTS, experiment

pytest.importorskip("sklearn", reason="pip install 'glasstream[gbmap]'")

from glasstream_lab.papers import models
from glasstream_lab.papers.ipfi_drift import BLOCK, INTERVAL, STREAMS, Drift, Stream, events_of
from glasstream_lab.papers.ipfi_table1 import Table1
from glasstream_lab.papers.models import StreamLearner
from glasstream_lab.papers.streams import generated


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_declares_what_it_shows_and_its_quick_form_does_less(name: str) -> None:
    one = experiment(name)
    assert one.name == name and one.paper in PAPERS and one.shows and one.settings and one.quick_omits
    choices = {option: choice.values[0] for option, choice in one.choices.items()}
    whole = one.tasks(Request(None, one.repetitions, quick=False, choices=choices))
    quick = one.tasks(Request(None, one.quick_repetitions, quick=True, choices=choices))
    assert 0 < len(quick) < len(whole)
    assert set(one.quick_data) <= set(one.data)
    assert len({str(task) for task in whole}) == len(whole)


def test_a_number_that_is_worse_by_chance_holds_and_one_that_is_far_off_does_not() -> None:
    assert Row("error", [1.0, 1.2, 1.1], 1.05, "above").verdict == "holds"
    assert Row("error", [1.0, 1.2, 1.1], 0.5, "above").verdict.startswith("worse by")
    assert Row("error", [1.0, 1.2, 1.1], 2.0, "above").verdict == "better"
    assert Row("score", [1.0, 1.2, 1.1], 2.0, "below").verdict.startswith("worse by")
    assert Row("mean", [1.0, 1.2, 1.1], 2.0).verdict.startswith("differs by")
    assert Row("error", [1.0, 1.2, 1.1], 0.5, "above", paper_error=1.0).verdict == "holds"
    assert Row("error", [1.0, 1.0], 0.9996, "above", tolerance=0.0005).verdict == "holds"
    assert Row("error", [1.0], 0.9, "above").verdict == "one repetition"


def test_tables_hold_every_repetition() -> None:
    rows = [Row("error", [1.0, 1.5], 1.2, "above", "median")]
    assert to_csv(rows).splitlines()[1] == "error,1.2,1.25,0.25,+0.3,holds,1 1.5"
    assert to_markdown(rows).splitlines()[2] == "| error | 1.2 | 1.25 | 0.25 | +0.3 | holds |"


def refuse(model: object) -> None:
    raise NotCompilable("as of a model that is not supported")


@pytest.mark.parametrize("compiled", [True, False])
def test_a_stream_learner_is_the_river_model(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    from river import forest

    if not compiled:
        monkeypatch.setattr(models, "take", refuse)
    names, rows, targets = events_of(None, STREAMS["agrawal fu. 1"]._replace(events=600, drift=300), 1, shuffle=True)
    river, learner = (forest.ARFClassifier(5, binary_split=True, seed=3) for _ in range(2))
    learned = StreamLearner(learner, names)
    predicted = np.concatenate([learned.learn(rows[k : k + 50], targets[k : k + 50]) for k in range(0, 600, 50)])
    for row, target, answer in zip(rows.tolist(), targets.tolist(), predicted.tolist(), strict=True):
        x = dict(zip(names, row, strict=True))
        said = river.predict_one(x)
        assert (-1 if said is None else said) == answer
        river.learn_one(x, target)
    table = FeatureTable()
    table.encode(dict.fromkeys(names, 0.0))
    expected = compile_model(river, table, {0: "0", 1: "1"}).evaluate(rows)
    predictor = learned.predictor()
    learned.learn(rows[:50], 1 - targets[:50])
    found = predictor.evaluate(rows)
    assert np.array_equal(found.values, expected.values) and np.array_equal(found.labels, expected.labels)


def test_a_drift_swaps_features_and_functions_and_a_gradual_one_mixes() -> None:
    swapped = Stream("agrawal", 4_000, 2_000, 2, (2, 2), (("age", "salary"),), {})
    names, rows, _ = events_of(None, swapped, 1, shuffle=True)
    age, salary = names.index("age"), names.index("salary")
    assert rows[:1_990, age].max() <= 80 < 20_000 <= rows[:1_990, salary].min()
    assert rows[2_010:, salary].max() <= 80 < 20_000 <= rows[2_010:, age].min()
    _, gradual, _ = events_of(None, swapped._replace(width=2_000), 1, shuffle=True)
    share = (gradual[:, age] > 80).reshape(8, 500).mean(axis=1)
    assert np.all(np.diff(share) > 0) and share[0] < 0.1 < 0.9 < share[-1]


def test_the_new_stream_begins_at_the_drift() -> None:
    _, rows, targets = events_of(None, Stream("agrawal", 400, 200, 2, (2, 2), (), {}), 1, shuffle=True)
    _, old, classes = generated("agrawal", 2, 400, 1)
    assert np.array_equal(rows[:190], old[:190]) and np.array_equal(targets[:190], classes[:190])
    assert any(np.array_equal(rows[210:], old[k : k + 190]) for k in range(21))


@pytest.mark.slow
def test_a_drift_changes_what_the_forest_relies_on() -> None:
    result = Drift().work(None, {"data": "stagger fu. 1", "seed": 1, "order": "after", "shuffle": "yes"})
    reference = np.array(result["reference"])
    size = result["names"].index("size")
    assert len(reference) == STREAMS["stagger fu. 1"].events // INTERVAL
    assert reference[1, size] < 0.05 and reference[-1, size] > 0.95
    assert result["geometric 0.001 before"] < 0.05 and INTERVAL % BLOCK == 0


@pytest.mark.slow
def test_batch_and_incremental_importance_agree_on_agrawal() -> None:
    result = Table1().work(None, {"data": "agrawal", "rows": 3_000, "seed": 0})
    assert result["performance"] > 0.98
    batch = np.array(result["batch"])
    assert batch.sum() == pytest.approx(1.0) and batch.min() >= 0.0
    assert result["uniform"] < 0.1 and result["geometric"] < 0.1


def test_the_list_names_every_experiment() -> None:
    shown = CliRunner().invoke(cli, ["paper", "list"], catch_exceptions=False, env={"COLUMNS": "200"})
    assert shown.exit_code == 0 and all(name in shown.stdout for name in EXPERIMENTS)
