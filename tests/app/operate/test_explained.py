"""`replay --seq`: what was published of an event, once more, from a log on the broker in this process."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.app.command.cli import cli
from glasstream.app.command.exit_codes import DIFFERS
from glasstream.app.configuration import load
from glasstream.app.operate import explained as module
from glasstream.app.operate.replay import open_log
from glasstream.base.errors import InputError, LostInputError
from glasstream.events.message import Message
from glasstream.flow.reference import Reference
from glasstream.flow.settings import Settings
from glasstream.kafka.stages.names import fingerprint, topic
from glasstream.models.predictors.predictor import Predictor
from glasstream_topics import contributions, events, progress_learner
from glasstream_topics.contributions import Contributions
from glasstream_topics.methods import EFFECTS
from glasstream_topics.progress_learner import LearnerPartitionProgress, LearnerStreamProgress
from glasstream_topics.requests import ExplainRequest
from tests.support.late_labels import apart
from tests.support.logs import event as numbers

COUNT = 160
UNLABELLED = 9
"""Of 50 events, this one never has a label."""
METHODS = "explain.methods=ipfi,isage,ipdp"


def event(number: int) -> dict[str, Any]:
    made = numbers(number)
    made["x"] |= {"town": f"t{number % 7}", "open": number % 2 == 0}
    if number % 50 == UNLABELLED:
        del made["y"]
    return made


MADE = [event(number) for number in range(COUNT)]
LATE = apart(MADE, [12 * (number % 3 == 0) for number in range(COUNT)])


def packed(log: Sequence[dict[str, Any]]) -> list[bytes]:
    return [orjson.dumps(log[at : at + 10]) for at in range(0, len(log), 10)]


class Kept(Reference):
    """The plain loop, and the contributions that its explainer publishes."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.answers: list[Contributions] = []

    def _explain(self, block: ExplainRequest, model: Predictor | None) -> list[Contributions]:
        answers = super()._explain(block, model)
        self.answers += answers
        return answers


class Deployment:
    """Topics as the stages leave them after a log."""

    def __init__(self, broker: EmbeddedKafka) -> None:
        self.broker = broker

    def run(self, *assignments: str, log: Sequence[bytes], begin: int = 0) -> Kept:
        """Learn and explain a log of stream s.

        Parameters
        ----------
        begin
            Offset at which the newest epoch begins.
        """
        base = ("topics.events=1", "explain.reservoir=10", "snapshot.cadence=20", "snapshot.target=0")
        self.settings = load(assignments=[f"broker={self.broker.bootstrap}", METHODS, *base, *assignments])
        for name in ("events", "progress.learner", "progress.novelty", "contributions"):
            self.broker.create_topic(topic(self.settings, name), 1)
        loop = Kept(self.settings)
        list(loop.run((b"s", value) for value in log))
        self.send("events", *log)
        place = LearnerPartitionProgress(
            epoch=0, first_offset=0, offset=len(log), used=0, fingerprint=fingerprint(self.settings)
        )
        stream = LearnerStreamProgress(
            stream="s", epoch=int(begin > 0), seqs=1, rows=1, first_offset=begin, after=len(log)
        )
        for record in (place, stream):
            key, value = progress_learner.encode(record)
            self.send("progress.learner", value, key=key)
        self.send("contributions", *map(contributions.encode, loop.answers))
        return loop

    def send(self, name: str, *values: bytes, key: bytes = b"s") -> None:
        producer = Producer({"bootstrap.servers": self.broker.bootstrap})
        for value in values:
            producer.produce(topic(self.settings, name), value, key, 0)
        assert producer.flush(30.0) == 0

    def replay(self, *seqs: int, code: int = 0) -> str:
        result = self.invoke(*seqs)
        assert result.exception is None and result.return_value == code, (result.output, result.exception)
        return result.stdout

    def invoke(self, *seqs: int, stream: str = "s", options: Sequence[str] = ("--json",)) -> Any:
        asked = [part for seq in seqs for part in ("--seq", str(seq))]
        arguments = ["replay", "--broker", self.broker.bootstrap, "--set", "topics.events=1", "--stream", stream]
        return CliRunner().invoke(cli, [*arguments, *asked, *options], standalone_mode=False)


@pytest.fixture
def deployment(embedded: EmbeddedKafka) -> Deployment:
    return Deployment(embedded)


def records(out: str) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize("model", ["linear", "tree"])
def test_every_explanation_is_the_published_one(deployment: Deployment, model: str) -> None:
    loop = deployment.run(f"model.name={model}", "explain.methods=ipfi,isage", log=packed(LATE))
    published = {
        seq: (answer.first_row + at, answer.version, dict(zip(answer.names, answer.values["isage"][at], strict=True)))
        for answer in loop.answers
        for at, seq in enumerate(answer.seqs.tolist())
    }
    asked = sorted(published)[::7]
    given = ("--json", "--set", f"model.name={model}")
    found = records(deployment.invoke(*asked, options=given).stdout)
    assert {one["seq"] for one in found} == set(asked) and len(found) == len(asked)
    for one in found:
        seq = one["seq"]
        assert (one["row"], one["model_version"], one["contributions"]["isage"]) == published[seq]
        assert one["published"]["equal"] and one["published"]["contributions"] == one["contributions"]
        assert (one["id"], one["features"], one["lag"]) == (str(seq), MADE[seq]["x"], one["row"] - one["model_version"])
        assert one["target"] == str(MADE[seq]["y"]).lower()
    assert any(value for one in found for value in one["contributions"]["ipfi"].values())


def test_an_event_in_two_parts_is_explained_in_both(deployment: Deployment) -> None:
    deployment.run("explain.unlabelled=true", log=packed(LATE))
    found = records(deployment.replay(60, 61, 100 + UNLABELLED - 50))
    assert all(one["published"]["equal"] for one in found)
    parts = [(one["seq"], bool(one["contributions"]), one["target"] is not None) for one in found]
    early, late = [(seq, False, False) for seq in (59, 60, 61)], [(seq, True, True) for seq in (60, 61)]
    assert sorted(parts) == sorted([*early, *late])


def test_only_the_newest_epoch_is_explained(deployment: Deployment) -> None:
    log = [*packed(MADE[:100]), events.RESET, *packed(MADE[20:])]
    deployment.run(log=log, begin=11)
    (one,) = records(deployment.replay(70))
    assert (one["epoch"], one["id"]) == (1, "90") and one["published"]["equal"]


def test_other_contributions_are_a_difference(deployment: Deployment) -> None:
    loop = deployment.run(log=packed(MADE))
    values = {name: np.array(array) for name, array in loop.answers[-1].values.items()}
    values["ipdp"][-1] += 1e-12
    deployment.send("contributions", contributions.encode(replace(loop.answers[-1], values=values)), b"damaged")
    last = int(loop.answers[-1].seqs[-1])
    (one,) = records(deployment.replay(last, code=DIFFERS))
    assert not one["published"]["equal"] and one["published"]["contributions"] == one["contributions"]
    shown = deployment.invoke(last, options=())
    assert shown.return_value == DIFFERS and "DIFFERS from the published" in shown.stdout
    assert "published ipfi" in shown.stdout and MADE[last]["x"]["town"] in shown.stdout
    shown = deployment.invoke(last - 1, options=())
    assert shown.return_value == 0 and "equal to the published contributions" in shown.stdout


def test_what_if(deployment: Deployment) -> None:
    deployment.run(log=packed(MADE))
    result = deployment.invoke(80, options=("--json", "--set", "seed=5"))
    assert result.return_value == DIFFERS and "differs from the running stages: seed" in result.stderr
    assert not records(result.stdout)[0]["published"]["equal"]


def test_without_published_contributions_nothing_differs(deployment: Deployment) -> None:
    deployment.run(log=packed(MADE))
    deployment.send("events", *packed([{**one, "id": f"more {one['id']}"} for one in MADE]))
    (one,) = records(deployment.replay(COUNT + 5))
    assert one["published"] is None and one["id"] == "more 5"
    assert "there are no published contributions" in deployment.invoke(COUNT + 5, options=()).stdout


def test_what_has_no_explanation_is_named(deployment: Deployment) -> None:
    deployment.run(log=packed(LATE))
    for seqs, what in (((UNLABELLED, 4, 60), "got seq 4, 9. Of"), ((COUNT,), f"Of the {COUNT} events")):
        error = deployment.invoke(*seqs).exception
        assert isinstance(error, InputError) and what in str(error), error
    error = deployment.invoke(3, stream="nobody").exception
    assert isinstance(error, InputError) and "'nobody'" in str(error)
    for options in (("--seq", "1", "--compare"), ("--json",), ("--seq", "1", "--stream", "t")):
        assert "expected" in str(deployment.invoke(options=options).exception)


def test_it_stops_after_the_last_event(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    deployment.run(log=packed(LATE))
    kept: Callable[..., Iterator[Message]] = module.messages
    read: list[Message] = []

    def counted(*arguments: Any) -> Iterator[Message]:
        for message in kept(*arguments):
            read.append(message)
            yield message

    monkeypatch.setattr(module, "messages", counted)
    deployment.replay(60, 40)
    assert len(read) < len(packed(LATE)) // 2


def test_events_are_not_numbered_without_those_that_kafka_has_deleted(deployment: Deployment) -> None:
    deployment.run(log=packed(MADE))
    log = open_log(deployment.settings)
    lost = replace(log, streams={"s": replace(log.streams["s"], offset=3, lost=3)})
    with pytest.raises(LostInputError, match="those before offset 3 of"):
        next(module.explained(deployment.settings, lost, "s", [60]))


def test_settings_are_adopted_but_no_module_is_named_by_a_record(deployment: Deployment) -> None:
    deployment.run("explain.alpha=0.25", "model.name=tree", log=packed(MADE[:10]))
    log = open_log(deployment.settings)
    assert log.defaults["explain.alpha"] == 0.25 and log.defaults["model.name"] == "tree"
    assert not any(name.startswith("version.") for name in log.defaults)
    named = replace(log, learner={**log.learner, "model.name": "os:abort"})
    assert "model.name" not in named.defaults


def test_contributions_to_a_prediction_can_be_computed_where_they_were_not_published(deployment: Deployment) -> None:
    loop = deployment.run("explain.methods=ipfi,attributions", log=packed(MADE))
    wanted = {
        int(seq): dict(zip(answer.names, answer.values["attributions"][at].tolist(), strict=True))
        for answer in loop.answers
        if answer.kind == "ok"
        for at, seq in enumerate(answer.seqs[answer.has(EFFECTS)].tolist())
    }
    found = [orjson.loads(line) for line in deployment.replay(UNLABELLED + 50, 100).splitlines()]
    assert {one["seq"]: one["contributions"]["attributions"] for one in found} == {
        seq: wanted[seq] for seq in (UNLABELLED + 50, 100)
    }
    assert all(one["published"]["equal"] for one in found)
