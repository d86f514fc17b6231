"""`glasstream reset`: one stream begins anew while the stages run, and are killed; nothing else is touched."""

from collections.abc import Callable

import pytest

from glasstream.app.command.exit_codes import DIFFERS
from glasstream.base.errors import InputError
from glasstream_topics import events
from tests.support.commands import Commands
from tests.support.deployment import OFTEN, SETTINGS, Deployment, assert_same
from tests.support.logs import messages, reference
from tests.support.waiting import wait_for

Deploy = Callable[..., Deployment]


def test_a_stream_begins_anew_whoever_is_killed(deploy: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a broker shows the commands on a log that workers write, and what of it they read as committed."""
    deployment = deploy(*SETTINGS, *OFTEN, "topics.events=1", "topics.requests=2")
    commands = Commands(deployment, monkeypatch)
    before, after, other = list(messages(0, 400)), [*messages(400, 640), events.FLUSH], list(messages(0, 200))
    deployment.start_all(explainers=2)
    deployment.send(*before)
    deployment.send(*other, key=b"t")
    wait_for("row 100 aggregated", lambda: deployment.aggregated("s") >= 100)
    said = commands.run("reset", "nobody", "--yes").error
    assert isinstance(said, InputError) and "the learner has not seen a stream 'nobody'" in str(said)

    said = commands.well("reset", "s", "--yes").out
    assert "stream s, epoch 0: " in said and f"{deployment.settings.prefix}events[0]@" in said
    for name in ("learner-1", "aggregator-1", "explainer-1"):
        deployment.kill(name)
        deployment.start(name.split("-")[0], name)
    deployment.send(*after)
    deployment.wait_published("t", 199)
    deployment.wait_published("s", 239)
    expected = reference(deployment.settings, [*before, events.RESET, *after])
    theirs = reference(deployment.settings, other, b"t")
    records = dict(deployment.records)
    deployment.records = {topic: [one for one in found if one.key() == b"s"] for topic, found in records.items()}
    assert_same(deployment, expected)
    for topic in ("predictions", "importance"):
        assert [one.value() for one in records[topic] if one.key() == b"t"] == theirs[topic], topic

    explained = commands.well("replay", "--stream", "s", "--seq", 220, "--seq", 111, "--json").records
    found = [(one["epoch"], one["seq"], one["id"], one["published"]["equal"]) for one in explained]
    assert found == [(1, 111, "511", True), (1, 220, "620", True)]

    every = ("--set", f"publish.every={deployment.settings.publish.every}")
    said = commands.well("replay", "--compare", *every).out
    assert "predictions: 840 published records, 840 of them computed again" in said and "others" not in said
    unknown = commands.run("replay", "--stream", "s", "--stream", "nobody").error
    assert isinstance(unknown, InputError) and "expected one of 's', 't'" in str(unknown) and "'nobody'" in str(unknown)
    place, first = f"{deployment.settings.prefix}predictions", theirs["predictions"][0]
    for value in (b"{nope", first.replace(b'"seq":0', b'"seq":7')):
        deployment.producer.produce(place, value, b"t")
    assert deployment.producer.flush(60.0) == 0
    compared = commands.run("replay", "--compare", *every)
    line = "predictions: 841 published records, 840 of them computed again; the first of the 1 others: {"
    assert compared.code == DIFFERS and line in compared.out and "; 1 messages are no records" in compared.out
    every_row = commands.run("replay", "--compare", "--stream", "t", "--set", "publish.every=1")
    assert "more computed, which Kafka has deleted or which were never published" in every_row.out

    said = commands.well("reset", "s", "--yes", "--wait").out
    assert (
        "epoch 1: 240 events, 240 rows, model version " in said
        and "the next event of the stream starts epoch 2" in said
    )
    (state,) = commands.well("state", "show", "--json").records
    told = ("epoch", "seqs", "rows", "aggregated", "behind")
    found = {one["stream"]: tuple(one[name] for name in told) for one in state["streams"]}
    assert found == {"s": (2, 0, 0, 0, 0), "t": (0, 200, 200, 200, 0)}
    assert "so there is nothing to forget" in commands.well("reset", "s", "--yes").out

    deployment.kill("learner-1")
    deployment.send(*messages(0, 60))
    said = commands.well("reset", "s", "--yes").out
    assert "messages behind on partition 0" in said
    assert "starts a later epoch (earlier reset marks decide which one)" in said
