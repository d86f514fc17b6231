"""A stream with a model that is already trained: predicted and explained, and nothing is learned."""

from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from glasstream.app.configuration import load
from glasstream.events.limits import IngestLimits
from glasstream.events.message import Message, Position
from glasstream.flow.learner.partition import PartitionLearner
from glasstream.flow.learner.stream_state import reason_for_key
from glasstream.flow.reference import Reference
from glasstream.models.onnx.file import parse
from glasstream.models.onnx.loading import loaded
from glasstream.models.onnx.model import FixedModel
from glasstream_topics import events
from tests.support.fixed_models import BASE, event, log, settings
from tests.support.late_labels import apart, delays
from tests.support.logs import reference
from tests.support.onnx_exports import TEXT, described, exported, known_texts
from tests.support.pipeline_in_memory import Pipeline

MODELS = {"translated": "encoded forest", "onnxruntime": "encoded network"}


@pytest.mark.parametrize("kind", MODELS)
def test_nothing_is_learned(tmp_path: Path, kind: str) -> None:
    """The last event is predicted as it would be as the first one, by version 0, of which there is one snapshot."""
    of = settings(tmp_path, MODELS[kind])
    found = [orjson.loads(record) for record in reference(of, log(90))["predictions"]]
    alone = [orjson.loads(record) for record in reference(of, log(90)[-1:])["predictions"]]
    for late, first in zip(found[-len(alone) :], alone, strict=True):
        assert late["probabilities"] == first["probabilities"]
    assert {one["model_version"] for one in found} == {0}
    learner = PartitionLearner(0, of)
    for offset, value in enumerate(log(90)):
        for _ in learner.consume(Message("events", 0, offset, b"s", value)):
            pass
    outbox, _ = learner.take_outbox()
    assert [one.version for one in outbox.snapshots] == [0]
    assert {one.version for one in outbox.requests} == {0}
    notices = " ".join(outbox.notices)
    assert "already trained, and learns nothing" in notices
    assert ("through onnxruntime, not in compiled code: the operator MatMul" in notices) == (kind == "onnxruntime")
    assert "'extra' is not one of the model's features" in notices


@pytest.mark.parametrize("kind", MODELS)
def test_events_mean_the_same_alone_and_in_blocks(tmp_path: Path, kind: str) -> None:
    of = settings(tmp_path, MODELS[kind])
    alone, together = reference(of, log(90, 1)), reference(of, log(90, 30))
    assert alone["predictions"] == together["predictions"]
    assert alone["importance"] == together["importance"]
    assert len(alone["importance"]) > 3


@pytest.mark.parametrize("kind", MODELS)
def test_the_stages_publish_what_the_plain_loop_does_whatever_happens(tmp_path: Path, kind: str) -> None:
    """Learners that die make the model again from its file, and explainers get it once."""
    values: list[tuple[bytes | None, bytes | None]] = [(b"s", value) for value in log(84)]
    pipeline = Pipeline(settings(tmp_path, MODELS[kind]), 1).run([*values, (b"s", events.FLUSH)], faults=12)
    topics = ("predictions", "importance", "effects")
    assert pipeline.published(*topics) == pipeline.expected(*topics)
    assert len(pipeline.happened) > 4


def test_effects_need_no_labels(tmp_path: Path) -> None:
    """The effects are the same bytes if labels come with their events, later or never, and equal those by rows."""
    of = settings(tmp_path, MODELS["translated"], "explain.unlabelled=true")
    made = [{**event(number), "y": str(TEXT[number % len(TEXT)])} for number in range(90)]
    late = apart(made, delays("random:30", 90))
    never = [{name: part for name, part in one.items() if name != "y"} for one in made]
    effects = {}
    for name, events_of in {"with": made, "late": late, "never": never}.items():
        values = [orjson.dumps(events_of[at : at + 7]) for at in range(0, len(events_of), 7)]
        found = reference(of, [*values, events.FLUSH])
        effects[name] = found["effects"]
        assert bool(found["importance"]) == (name != "never")
    assert effects["late"] == effects["never"] == effects["with"]
    by_rows = settings(tmp_path, MODELS["translated"])
    assert (
        effects["with"]
        == reference(by_rows, [*(orjson.dumps(made[at : at + 7]) for at in range(0, 90, 7)), events.FLUSH])["effects"]
    )


@pytest.mark.parametrize("labelled", [pytest.param("late", marks=pytest.mark.slow), "never"])
def test_effects_without_labels_are_those_of_the_plain_loop_whatever_happens(tmp_path: Path, labelled: str) -> None:
    made = [event(number) for number in range(84)]
    sent = apart(made, delays("random:30", 84))
    sent = [one for one in sent if labelled == "late" or "x" in one]
    values: list[tuple[bytes | None, bytes | None]] = [
        (b"s", orjson.dumps(sent[at : at + 7])) for at in range(0, len(sent), 7)
    ]
    of = settings(tmp_path, MODELS["translated"], "explain.unlabelled=true")
    pipeline = Pipeline(of, 1).run([*values, (b"s", events.FLUSH)], faults=12)
    topics = ("predictions", "importance", "effects")
    assert pipeline.published(*topics) == pipeline.expected(*topics)
    assert {topic for topic, _ in pipeline.published(*topics)} >= {"predictions", "effects"}


@pytest.mark.parametrize("kind", MODELS)
def test_a_successor_resumes_without_the_file_in_its_state(tmp_path: Path, kind: str) -> None:
    of = settings(tmp_path, MODELS[kind])
    values = log(60)
    whole, first = PartitionLearner(0, of), PartitionLearner(0, of)
    for offset, value in enumerate(values):
        list(whole.consume(Message("events", 0, offset, b"s", value)))
    for offset, value in enumerate(values[:5]):
        list(first.consume(Message("events", 0, offset, b"s", value)))
    first.cut()
    state = first.state("s", at_rest=True)
    assert state.learner.model is None
    second = PartitionLearner(0, of, first_offset=5)
    second.resume("s", state, Position(5, 0))
    assert [one.version for one in second.outbox.snapshots] == [0]
    for offset, value in enumerate(values[5:], 5):
        list(second.consume(Message("events", 0, offset, b"s", value)))
    for learner in (whole, second):
        learner.cut()
    mine, theirs = second.take_outbox()[0], whole.take_outbox()[0]
    assert mine.predictions == theirs.predictions[-len(mine.predictions) :]
    assert np.array_equal(mine.requests[-1].x, theirs.requests[-1].x, equal_nan=True)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "a feature is not there": ({"x": {"b": 1.0}}, "feature 'a': the model needs it, and the event does not have it"),
    "a text for a number": ({"a": "one"}, "feature 'a': the model takes numbers, got 'one'"),
    "a number for a text": ({"town": 3}, "feature 'town': the model takes texts, got 3"),
    "half a visit": ({"visits": 2.5}, "feature 'visits': the model takes whole numbers, got 2.5"),
    "no visits": ({"visits": None}, "feature 'visits': the model takes whole numbers, which cannot be missing"),
    "another class": ({"y": "maybe"}, "expected `y` to be one of the model's classes 'no', 'yes', got 'maybe'"),
}


@pytest.mark.parametrize("case", REFUSED)
@pytest.mark.parametrize("kind", MODELS)
def test_an_event_that_does_not_fit_the_model_is_a_dead_letter_that_names_the_field(
    tmp_path: Path, kind: str, case: str
) -> None:
    change, wanted = REFUSED[case]
    wrong = event(0)
    if "y" in change or "x" in change:
        wrong |= change
    else:
        wrong["x"] |= change
    found = reference(settings(tmp_path, MODELS[kind]), [orjson.dumps([event(1), wrong, event(2)])])
    (letter,) = [orjson.loads(one) for one in found["events.dead"]]
    assert wanted in letter["detail"]
    assert letter["reason"] == "rejected_elements"
    learned = [orjson.loads(one)["id"] for one in found["predictions"]]
    assert sorted(map(str, learned)) == ["1", "2"]


def test_a_late_label_of_another_class_is_a_dead_letter_and_counts_as_no_mistake(tmp_path: Path) -> None:
    unlabelled = {name: value for name, value in event(0).items() if name != "y"}
    late = [unlabelled, {"id": 0, "y": "maybe"}, event(1)]
    found = reference(settings(tmp_path, "encoded forest"), [orjson.dumps(late)])
    (letter,) = [orjson.loads(one) for one in found["events.dead"]]
    assert "one of the model's classes 'no', 'yes', got 'maybe'" in letter["detail"]
    last = orjson.loads(found["predictions"][-1])
    assert last["metric"]["value"] == float(last["prediction"] == last["target"])


def test_a_boolean_is_a_number_and_an_absent_feature_may_be_missing(tmp_path: Path) -> None:
    of = settings(tmp_path, "encoded forest", "model.absent=missing")
    one, other = event(0), event(0)
    one["x"] |= {"b": True, "a": None}
    other["x"]["b"] = 1.0
    del other["x"]["a"]
    found = [orjson.loads(record) for record in reference(of, [orjson.dumps([one, other])])["predictions"]]
    assert found[0]["probabilities"] == found[1]["probabilities"]


def test_a_model_without_an_answer_says_which_feature_is_missing(tmp_path: Path) -> None:
    made = event(0)
    made["x"] = {"a": None, "b": 1.0, "c": 1.0, "d": 0.5}
    path = tmp_path / "logistic.onnx"
    path.write_bytes(exported("logistic"))
    of = load(assignments=[*BASE, f"model.name={path}", "model.features=a,b,c,d"])
    (letter,) = reference(of, [orjson.dumps(made)])["events.dead"]
    assert (
        "expected probabilities from the model, got nan, nan; missing in this event: 'a'"
        in orjson.loads(letter)["detail"]
    )


@pytest.mark.parametrize(
    ("name", "blind"),
    [
        ("support vectors", True),
        ("neighbours", True),
        ("forest", False),
        ("imputed and scaled", False),
        ("network", False),
    ],
)
def test_a_model_that_answers_the_same_for_every_event_that_lacks_a_number_is_reported(name: str, blind: bool) -> None:
    made = FixedModel(loaded(parse(exported(name), "a,b,c,d")), IngestLimits())
    assert made.refuses({"a": 1.0, "b": 1.0, "c": 1.0, "d": 1.0}) is None and made.remarks == []
    for _ in range(2):
        assert made.refuses({"a": None, "b": 1.0, "c": 1.0, "d": 1.0}) is None
    assert len(made.remarks) == blind
    assert all("for every event that lacks 'a', whatever its other features are" in remark for remark in made.remarks)
    assert made.refuses(dict.fromkeys("abcd")) is None and len(made.remarks) == blind


def test_the_learner_reports_a_model_that_cannot_process_missing_numbers(tmp_path: Path) -> None:
    path = tmp_path / "neighbours.onnx"
    path.write_bytes(exported("neighbours"))
    of = load(assignments=[*BASE, f"model.name={path}", "model.features=a,b,c,d"])
    loop = Reference(of)
    made = [{"id": number, "x": {"a": None, "b": 1.0, "c": 1.0, "d": 0.5}, "y": "0"} for number in range(3)]
    list(loop.run((b"s", orjson.dumps(one)) for one in made))
    assert sum("lacks 'a'" in notice for notice in loop.notices) == 1, loop.notices


def test_a_label_in_another_case_has_its_names_in_the_error() -> None:
    made = FixedModel(loaded(parse(exported("forest"), "a,b,c,d", "False,True")), IngestLimits())
    assert str(made.refuses_label("true")).endswith("renames the classes, such as model.classes=false,true")
    assert str(made.refuses_label("up")).endswith("renames the classes")


def test_texts_that_encoders_know_have_their_codes_before_the_first_event(tmp_path: Path) -> None:
    texts = known_texts(described("encoded forest"))
    assert texts[4] == ["far", "here", "there"]
    assert [len(one) for one in texts] == [0, 0, 0, 0, 3, 0]


@pytest.mark.parametrize("kind", MODELS)
def test_a_key_is_needed_only_for_what_onnxruntime_evaluates(tmp_path: Path, kind: str) -> None:
    reason = reason_for_key(settings(tmp_path, MODELS[kind]))
    assert (reason is None) == (kind == "translated")
    assert reason is None or "onnxruntime evaluates the model, so its snapshot is sealed: the operator" in reason
