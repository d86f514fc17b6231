"""`dead list`, `show`, `replay`: what was rejected is seen, mended, and learned after all, once."""

from collections.abc import Callable

import orjson
import pytest

from glasstream.app.command.exit_codes import DIFFERS
from glasstream.app.operate.topic_reader import read_records
from glasstream.base.errors import InputError
from glasstream.kafka.transport.connection import connection
from glasstream_topics import events, events_dead
from tests.support.commands import Commands
from tests.support.deployment import SETTINGS, Deployment
from tests.support.logs import event, messages
from tests.support.waiting import wait_for

Deploy = Callable[..., Deployment]
GOOD = 40


def halve(given: object) -> object:
    """A filter: events whose target is text get the one that was meant."""
    if isinstance(given, dict) and given.get("y") == "yes":
        return {**given, "y": True}
    return given


def replayed(deployment: Deployment) -> list[tuple[bytes | None, bytes | None, str]]:
    """Return the messages on `events` that carry the position of a dead letter: key, value, position."""
    settings = deployment.settings
    name = settings.prefix + events.TOPIC.name
    begin = {(name, partition): 0 for partition in range(settings.topics.events)}
    return [
        (message.key, message.value, text.decode())
        for message in read_records(connection(settings), begin, read_committed=True)
        for header, text in message.headers
        if header == events_dead.REPLAYED
    ]


def test_dead_letters_are_mended_and_sent_again_once(deploy: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a broker has the markers of the learner's transactions between the dead letters that commands read."""
    deployment = deploy(*SETTINGS, "topics.events=2", "checkpoint.seconds=0", "limits.dead_bytes=65536")
    commands = Commands(deployment, monkeypatch)
    right = events.partition(b"s", 2)
    nan = b'{"x": {"a": NaN, "b": 1}, "y": true}'
    array = orjson.dumps([event(100), {**event(101), "y": "yes"}, {**event(102), "z": 1}])
    assert "no dead letters" in commands.well("dead", "list").out
    deployment.start("learner")
    deployment.send(*messages(0, GOOD), nan, array)
    deployment.send(orjson.dumps(event(103)), partition=1 - right)
    deployment.send(orjson.dumps(event(104)), key=None, partition=right)
    deployment.send(b'"' + b"z" * 100_000 + b'"')
    wait_for("all are rejected", lambda: deployment.poll() and len(deployment.records["events.dead"]) == 5)

    counts = {
        (one["stream"], one["reason"]): (one["letters"], one["elements"])
        for one in commands.well("dead", "list", "--json").records
    }
    one = (1, 1)
    assert counts == {
        ("s", "not_json"): one, ("s", "target_kind"): one, ("s", "unknown_key"): one, ("s", "wrong_partition"): one,
        ("s", "not_an_object"): one, ("", "missing_stream"): one,
    }  # fmt: skip
    assert "wrong_partition" in commands.well("dead", "list").out
    shown = commands.well("dead", "show", "--reason", "target_kind").out
    assert f"events.dead[{right}]@" in shown and "1 target_kind, 2 unknown_key" in shown
    assert array.decode() in shown
    (record,) = commands.well("dead", "show", "--json", "--reason", "not_json").records
    assert record["value"] == nan.decode() and record["at"].startswith(f"{deployment.settings.prefix}events.dead[")
    place = record["at"].rpartition("[")[2].replace("]", "")
    assert commands.well("dead", "show", "--json", "--at", place).records == [record]

    # nothing is sent that would come back
    said = commands.run("dead", "replay", "--reason", "not_json")
    assert said.code == DIFFERS and "1 not sent: not_json" in said.out and "not valid JSON" in said.err
    assert not replayed(deployment)
    name = "tests.integration.test_dead_letters:halve"
    dry = commands.well("dead", "replay", "--reason", "wrong_partition", "--dry-run").out
    assert "1 dead letters with 1 events would be sent" in dry and not replayed(deployment)

    # each is mended in its way, and learned
    said = commands.well("dead", "replay", "--reason", "not_json", "--filter", "nan-as-null")
    assert "1 dead letters with 1 events sent again" in said.out
    said = commands.run("dead", "replay", "--reason", "target_kind", "--filter", name)
    assert said.code == DIFFERS and "1 not sent: unknown_key" in said.out, "the other element of its array is bad"
    array_at = commands.well("dead", "show", "--json", "--reason", "target_kind").records[0]["at"].rpartition("[")[2]
    commands.well("dead", "replay", "--at", array_at.replace("]", ""), "--filter", f"{__name__}:halve_known")
    commands.well("dead", "replay", "--reason", "wrong_partition")
    commands.well("dead", "replay", "--reason", "missing_stream", "--to", "s")
    found = replayed(deployment)
    assert len(found) == len({position for _, _, position in found}) == 4
    assert all(key == b"s" for key, _, _ in found)
    assert [{**event(101), "y": True}, event(102)] in [orjson.loads(value or b"") for _, value, _ in found]
    rows = GOOD + 1 + 5
    wait_for("they are learned", lambda: deployment.poll().progress.rows.get("s") == rows)

    # and not twice, unless it is asked for
    said = commands.run("dead", "replay", "--filter", "nan-as-null")
    assert "0 dead letters with 0 events sent again" in said.out and "4 were replayed before" in said.out
    assert said.code == DIFFERS and "1 not sent: omitted" in said.out
    assert len(replayed(deployment)) == 4
    said = commands.well("dead", "replay", "--reason", "wrong_partition", "--force")
    assert "1 dead letters with 1 events sent again" in said.out
    wait_for("it is learned again", lambda: deployment.poll().progress.rows.get("s") == rows + 1)
    assert len(deployment.records["events.dead"]) == 5, "nothing came back"

    said = commands.run("dead", "replay", "--force", "--reason", "wrong_partition", "--filter", f"{__name__}:raising")
    assert isinstance(said.error, InputError) and "the filter raised ZeroDivisionError" in str(said.error)
    assert commands.run("dead", "show", "--at", "7").error is not None


def halve_known(given: object) -> object:
    """Both elements of the array mended."""
    mended = halve(given)
    return {key: mended[key] for key in ("id", "ts", "x", "y")} if isinstance(mended, dict) else mended


def raising(given: object) -> object:
    """A filter that does not work."""
    return 1 / 0
