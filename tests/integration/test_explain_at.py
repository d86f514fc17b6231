"""`explain-at` and `state show` after a run: what was published, once more, for as long as the log goes back."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import orjson
import pytest
from click.testing import CliRunner
from confluent_kafka import KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from glasstream.app.command.cli import cli
from glasstream.app.command.exit_codes import DIFFERS
from glasstream.app.operate.topic_reader import read_records
from glasstream.base.errors import InputError, StateError
from glasstream.kafka.transport.connection import connection
from glasstream.kafka.transport.worker import ExitCode
from glasstream_topics import contributions, events
from tests.integration.conftest import Run
from tests.support.commands import Commands
from tests.support.deployment import OFTEN, SETTINGS, Deployment, checkpoint_keys, wait_for
from tests.support.logs import event as numbers

Deploy = Callable[..., Deployment]
COUNT, LATER = 600, 100
FORGOTTEN = 10
"""Messages of stream s, of 20 events each, that the broker forgets in the end."""
UNLABELLED = 9


def event(number: int) -> dict:
    """Every 50th without a label."""
    made = numbers(number)
    made["x"]["town"] = f"t{number % 7 if number < 450 else number % 9}"
    if number % 50 == UNLABELLED:
        del made["y"]
    return made


def messages(first: int, end: int) -> Iterator[bytes]:
    for start in range(first, end, 20):
        yield orjson.dumps([event(number) for number in range(start, start + 20)])


def labelled_late(count: int) -> Iterator[bytes]:
    """Every third event's label 40 events later."""
    late: dict[int, dict] = {}
    for number in range(count + 40):
        sent = []
        if number < count:
            made = event(number)
            if number % 3 == 0 and "y" in made:
                late[number + 40] = {"id": number, "y": made.pop("y")}
            sent.append(made)
        if number in late:
            sent.append(late.pop(number))
        if sent:
            yield orjson.dumps(sent)


def forget(deployment: Deployment, topic: str, before: Mapping[int, int]) -> None:
    """Make the broker forget what lies before an offset, by partition; -1: everything."""
    name = deployment.settings.prefix + topic
    asked = [TopicPartition(name, partition, offset) for partition, offset in before.items()]

    def forgotten() -> bool:
        try:
            for future in deployment.admin.delete_records(asked).values():
                future.result()
        except KafkaException as error:
            if error.args[0].code() != KafkaError.POLICY_VIOLATION:
                raise
            deployment.poll()  # a policy that was just changed is not yet that of the log
            return False
        return True

    wait_for(f"{name} is forgotten", forgotten)


def forget_snapshots(deployment: Deployment) -> None:
    """Remove what a compaction removes when it meets the tombstones."""
    entry = ConfigEntry("cleanup.policy", "compact,delete", incremental_operation=AlterConfigOpType.SET)
    name = deployment.settings.prefix + "snapshots"
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
    for future in deployment.admin.incremental_alter_configs([resource]).values():
        future.result()
    forget(deployment, "snapshots", {0: -1})


def send_until_a_checkpoint(deployment: Deployment) -> list[int]:
    """Send events of stream s until there is a checkpoint to go on from when the first messages are gone. The
    numbers of those that are labelled, which have been explained."""
    sent, partition = 0, events.partition(b"s", deployment.settings.topics.events)
    for end in range(COUNT, 10 * COUNT, LATER):  # one that took long is followed by as long a pause
        deployment.send(*messages(sent, end), events.FLUSH)
        sent = end
        rows = [number for number in range(end) if number % 50 != UNLABELLED]
        deployment.wait_published("s", len(rows) - 1)
        kept = [key.version for key in checkpoint_keys(deployment, partition) if key.stream == "s"]
        if any(20 * FORGOTTEN < version < len(rows) for version in kept):
            return rows
    raise AssertionError("no checkpoint was made")


def publish_others(deployment: Deployment) -> None:
    """Contributions of stream t once more, a millionth off."""
    settings = deployment.settings
    partition = events.partition(b"t", settings.topics.events)
    name = settings.prefix + contributions.TOPIC.name
    for message in read_records(connection(settings), {(name, partition): 0}, read_committed=False):
        record = contributions.decode(message.value or b"")
        if record.stream == "t" and record.count:
            values = {key: np.array(array) for key, array in record.values.items()}
            values["ipfi"] += 1e-6
            made = replace(record, values=values)
            deployment.producer.produce(name, contributions.encode(made), message.key, partition)
    assert deployment.producer.flush(30.0) == 0


def test_explanations_are_made_once_more_for_as_long_as_the_log_goes_back(
    deploy: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a broker forgets requests, snapshots and events under the tools that read them."""
    counts = ("topics.events=2", "topics.requests=2")
    deployment = deploy(*SETTINGS, *OFTEN, *counts, "explain.methods=ipfi,isage,ipdp")
    commands = Commands(deployment, monkeypatch)
    deployment.start_all()
    rows = send_until_a_checkpoint(deployment)
    count = rows[-1] + 1
    deployment.send(*labelled_late(300), events.FLUSH, key=b"t")
    deployment.wait_published("t", 293)
    for worker in ("explainer-1", "aggregator-1", "learner-1"):
        assert deployment.stop(worker) == ExitCode.OK

    # random events, from what was sent and from the log alone
    asked = Random(5).sample(rows[100:], 10)
    found = commands.well("explain-at", "s", *asked, "--json").records
    again = commands.well("explain-at", "s", *asked, "--json", "--from", "log").records
    assert [one["seq"] for one in found] == asked
    for one, other in zip(found, again, strict=True):
        seq = one["seq"]
        assert (one["source"], other["source"], one["notes"]) == ("topics", "log", [])
        for made in (one, other):
            assert made["published"]["equal"] and made["published"]["difference"] <= 1e-12
            assert made["row"] == rows.index(seq) and made["event"]["id"] == str(seq)
            assert made["event"]["x"] == event(seq)["x"] == dict(zip(made["features"], made["row_values"], strict=True))
            assert {"ipfi", "isage", "isage.order"} < made["draws"].keys() and "ipdp" in made["values"]
        for same in ("model_version", "row", "values", "contributions"):
            assert one[same] == other[same]
    assert any(value for one in found for value in one["contributions"]["ipfi"].values())
    text = commands.well("explain-at", "s", asked[0]).out
    assert "equal to the published contributions" in text and event(asked[0])["x"]["town"] in text

    # events whose labels came late
    for source in ("topics", "log"):
        found = commands.well("explain-at", "t", 201, 202, "--json", "--from", source).records
        assert [(one["seq"], one["published"]["equal"]) for one in found] == [(201, True), (202, True)]
        late, prompt = found
        assert late["row"] > prompt["row"] and late["target"] is not None
        assert late["event"]["x"] == event(201)["x"]

    # what cannot be asked
    for arguments, what in (
        (("s", UNLABELLED), "has no label"),
        (("s", 3), "event 3 has no explanation"),
        (("s", count), f"expected a seq from 0 to {count - 1}"),
        (("nobody", 3), "the learner has not seen a stream 'nobody'"),
    ):
        said = commands.run("explain-at", *arguments)
        assert isinstance(said.error, InputError) and what in str(said.error), said
    publish_others(deployment)
    said = commands.run("explain-at", "t", 200)
    assert (
        said.code == DIFFERS and "DIFFERS from the published contributions" in said.out and "by up to 1e-06" in said.out
    )

    # how far everybody is: a learner alone runs ahead
    deployment.start("learner")
    deployment.send(*messages(count, count + LATER))
    wait_for("they are learned", lambda: deployment.poll().progress.rows.get("s") == len(rows) + LATER - 2)
    assert deployment.stop("learner-1") == ExitCode.OK
    state = commands.well("state", "show", "--json").records[0]
    s, t = sorted(state["streams"], key=lambda one: str(one["stream"]))
    unlabelled = (count + LATER) // 50
    assert (s["stream"], s["seqs"], s["rows"], s["unlabelled"]) == ("s", count + LATER, len(rows) + 98, unlabelled)
    assert (s["aggregated"], s["published"], s["behind"]) == (len(rows), len(rows) - 1, 98)
    assert 0 < s["version"] <= s["rows"] and 0 < s["checkpoint"] <= s["rows"] and s["epoch"] == 0
    assert (t["stream"], t["rows"], t["behind"]) == ("t", 294, 0)
    behind = {(one["stage"], one["partition"]): one["behind"] for one in state["partitions"]}
    assert len(behind) == 6 and sum(count for (stage, _), count in behind.items() if stage == "explainer") >= 1
    assert not any(count for (stage, _), count in behind.items() if stage == "learner")
    shown = commands.well("state", "show", "--stream", "t").out
    assert " t " in shown and " s " not in shown
    (early,) = commands.well("explain-at", "s", count + 5, "--json").records
    assert early["published"] is None and early["source"] == "topics"

    # what is gone is named, with what would have kept it
    seq, prefix = asked[0], deployment.settings.prefix
    forget_snapshots(deployment)
    (made,) = commands.well("explain-at", "s", seq, "--json").records
    assert made["source"] == "log" and made["published"]["equal"]
    assert f"is no longer on {prefix}snapshots" in made["notes"][0]
    assert "min.compaction.lag.ms" in made["notes"][0]
    forget(deployment, "explain.requests", {0: -1, 1: -1})
    (made,) = commands.well("explain-at", "s", seq, "--json").records
    assert made["source"] == "log" and "retention.bytes" in made["notes"][0] and made["published"]["equal"]
    said = commands.run("explain-at", "s", seq, "--from", "topics")
    assert isinstance(
        said.error, StateError
    ) and f"there is no block with seq {seq} on {prefix}explain.requests" in str(said.error)
    late = rows[-1]
    every = f"publish.every={deployment.settings.publish.every}"
    assert "others" not in commands.well("replay", "--compare", "--set", every).out
    forget(deployment, "events", {events.partition(b"s", 2): FORGOTTEN})
    said = commands.run("replay", "--compare", "--set", every)
    assert said.code == DIFFERS and f"Kafka has deleted the events before offset {FORGOTTEN}" in said.out
    (made,) = commands.well("explain-at", "s", late, "--json").records
    assert made["source"] == "log" and made["published"]["equal"] and made["event"]["id"] == str(late)
    said = commands.run("explain-at", "s", rows[120])
    assert isinstance(said.error, StateError) and "retention.ms" in str(said.error)
    assert "there is no checkpoint from before seq" in str(said.error)
    monkeypatch.delenv("GLASSTREAM_HMAC_KEY")
    said = commands.run("explain-at", "s", late)
    assert isinstance(said.error, StateError) and "needs a key" in str(said.error)


@pytest.mark.slow
def test_after_a_run_its_folder_is_enough(
    local_broker: object, finished_run: Callable[..., Run], tmp_path: Path
) -> None:
    """Only a Kafka with a folder outlives its run. `local_broker` says whether there can be one on this machine."""
    options = ("--broker", "local", "--data", str(tmp_path / "data"), "--prefix", "kept.")
    novelty = ("novelty.window=300", "novelty.stride=300", "novelty.delay=200", "novelty.held=0.5")
    asked = ("--explain", "ipfi,novelty", *(part for one in novelty for part in ("--set", one)))
    run = finished_run(*options, *asked, "--rows", "1000", "--model", "tree")

    def said(*arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(cli, [*arguments, *options], standalone_mode=False)
        assert result.exception is None and result.return_value == code, result.output
        return result.stdout

    assert orjson.loads(said("explain-at", "agrawal", "777", "--json"))["published"]["equal"]
    said("state", "show", "--json")
    said("dead", "list")
    again = tmp_path / "again"
    told = said("replay", "--compare", "--out", str(again))
    assert "predictions: 1,000 published records, 1,000 of them computed again" in told and "differs" not in told
    for topic in ("predictions", "importance", "incidents", "novelty"):
        assert (again / f"{topic}.jsonl").read_bytes() == run.file(topic), topic
    assert run.file("novelty")
    told = said("replay", "--compare", "--stream", "agrawal", "--set", "explain.alpha=0.1", code=DIFFERS)
    assert "differs from the running stages: explain.alpha: was 0.001, is 0.1" in told
    assert "1,000 of them computed again" in told and "others: {" in told
    nobody = CliRunner().invoke(cli, ["replay", "--stream", "nobody", *options], standalone_mode=False)
    assert isinstance(nobody.exception, InputError)
