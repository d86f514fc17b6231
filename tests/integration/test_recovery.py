"""Successors of learner and fold go on exactly; what cannot be continued is refused, with a message and a code."""

import os
import signal
from collections.abc import Callable, Iterator

import msgspec
import orjson
import pytest
from confluent_kafka import TopicPartition

from pipeline.command.reference import Reference
from pipeline.settings import Settings
from pipeline.stages.build import connection
from pipeline.transport.progress import read_to_end
from pipeline.transport.worker import ExitCode
from tests.deployment import Deployment, wait_for
from topics import checkpoints, chunks, events, events_dead, frames, importance

Deploy = Callable[..., Deployment]
SETTINGS = ("model.name=tree", "seed=3", "model.task=classification", "limits.rows_ahead=800", "publish.every=50")
OFTEN = ("checkpoint.seconds=0.001", "checkpoint.share=1")
"""A checkpoint at nearly every snapshot, however fast the machine learns."""


def event(number: int) -> dict:
    a, b = (number * 7919 % 1000) / 1000, (number * 104729 % 1000) / 1000
    return {"id": number, "x": {"a": a, "b": b, "c": a * b}, "y": a + b > 1}


def messages(first: int, end: int, size: int = 20) -> Iterator[bytes]:
    for start in range(first, end, size):
        yield orjson.dumps([event(number) for number in range(start, min(start + size, end))])


def reference(settings: Settings, values: list[bytes | None], key: bytes = b"s") -> dict[str, list[bytes]]:
    found: dict[str, list[bytes]] = {"predictions": [], "importance": [], "drift": [], "events.dead": []}
    for topic, record in Reference(settings).run((key, value) for value in values):
        found[topic].append(record)
    return found


def assert_same(deployment: Deployment, expected: dict[str, list[bytes]]) -> None:
    for topic in ("predictions", "importance"):
        got = deployment.values(topic)
        assert len(got) == len(expected[topic]), f"{topic}: lost or double"
        assert got == expected[topic], topic


@pytest.mark.parametrize("victim", ["learner-1", "fold-1"])
def test_a_killed_worker_has_a_successor_that_goes_on_exactly(victim: str, deploy: Deploy) -> None:
    deployment = deploy(*SETTINGS)
    log = [*messages(0, 4_000), events.FLUSH]
    expected = reference(deployment.settings, log)
    deployment.start_all()
    deployment.send(*log)
    for row in (500, 1_700):
        wait_for(f"row {row} folded", lambda row=row: deployment.folded("s") >= row)
        deployment.kill(victim)
        deployment.start(victim.split("-")[0], victim)
    deployment.wait_published("s", 3_999)
    assert_same(deployment, expected)


def test_a_worker_that_was_paused_past_its_session_can_add_nothing(deploy: Deploy) -> None:
    """It wakes as a second owner: the first commit of its successor has fenced it."""
    deployment = deploy(*SETTINGS)
    log = [*messages(0, 3_000), events.FLUSH]
    expected = reference(deployment.settings, log)
    deployment.start_all()
    deployment.send(*log[: len(log) // 2])
    wait_for("row 500 folded", lambda: deployment.folded("s") >= 500)
    sleeper = deployment.workers["learner-1"]
    os.kill(sleeper.pid, signal.SIGSTOP)
    deployment.start("learner", "learner-2")
    deployment.send(*log[len(log) // 2 :])
    deployment.wait_published("s", 2_999)
    os.kill(sleeper.pid, signal.SIGCONT)
    assert deployment.stop("learner-2") == ExitCode.OK
    code = sleeper.poll()
    if code is None:
        code = deployment.stop("learner-1")
    # BROKER: it was paused within a commit, and wakes when the commit's deadline is gone.
    assert code in (ExitCode.OK, ExitCode.FENCED, ExitCode.BROKER), deployment.log("learner-1")
    deployment.read_all()
    assert_same(deployment, expected)


def test_two_streams_two_partitions_keep_apart(deploy: Deploy) -> None:
    deployment = deploy(*SETTINGS)
    streams = [b"one", b"two", b"three"]
    log = [*messages(0, 600), events.FLUSH]
    deployment.start_all()
    for value in log:
        for key in streams:
            deployment.send(value, key=key)
    for key in streams:
        deployment.wait_published(key.decode(), 599)
    for key in streams:
        expected = reference(deployment.settings, log, key)
        for topic in ("predictions", "importance"):
            mine = [message.value() for message in deployment.records[topic] if message.key() == key]
            assert mine == expected[topic]


BAD: list[tuple[str, bytes | None]] = [
    ("not_utf8", b"\xff\xfe"),
    ("not_json", b'{"x": {"a": NaN}}'),
    ("rejected_elements", b'[{"x": {"a": 1}}, 3]'),
    ("not_an_object", b"3"),
    ("no_x", b"{}"),
    ("empty_x", b'{"x": {}}'),
    ("nested_value", b'{"x": {"a": [1]}}'),
    ("null_message", None),
    ("too_large", b'{"x": {"a": "' + b"z" * 200_000 + b'"}}'),
    ("target_kind", b'{"x": {"a": 0.5}, "y": "text"}'),
]


def test_bad_input_is_on_the_dead_letter_topic_as_it_came_and_the_rest_is_explained(deploy: Deploy) -> None:
    deployment = deploy(*SETTINGS, "limits.message_bytes=100000", "limits.dead_bytes=150000")
    good = list(messages(0, 1_000))
    log = [*good[:25], *[value for _, value in BAD], *good[25:], events.FLUSH]
    expected = reference(deployment.settings, log)
    deployment.start_all()
    deployment.send(*log)
    # a message on the wrong partition, and one without a stream
    right = events.partition(b"s", deployment.settings.topics.events)
    deployment.send(good[0], partition=(right + 1) % deployment.settings.topics.events)
    deployment.send(good[0], key=None, partition=right)
    deployment.wait_published("s", 999)
    wait_for(
        "all dead letters",
        lambda: deployment.poll() and len(deployment.records["events.dead"]) >= len(BAD) + 2,
    )
    assert_same(deployment, expected)
    letters = {}
    for message in deployment.records["events.dead"]:
        letter = events_dead.decode(message.headers() or [])
        letters[letter.reason] = (message, letter)
        assert letter.topic == deployment.settings.prefix + "events"
    assert sorted(letters) == sorted([reason for reason, _ in BAD] + ["wrong_partition", "missing_stream"])
    for reason, value in BAD:
        message, letter = letters[reason]
        if reason == "too_large":
            assert message.value() is None and letter.omitted_bytes == len(value or b"")
        else:
            assert message.value() == value
    assert letters["rejected_elements"][1].rejected == [(1, "not_an_object")]
    assert "murmur2_random" in letters["wrong_partition"][1].detail


def test_an_aborted_transaction_on_events_is_not_learned(kafka: str, deploy: Deploy) -> None:
    from confluent_kafka import Producer

    deployment = deploy(*SETTINGS)
    log = [*messages(0, 400), events.FLUSH]
    name = deployment.settings.prefix + "events"
    writer = Producer(
        {"bootstrap.servers": kafka, "partitioner": "murmur2_random", "transactional.id": f"{name}-writer"}
    )
    writer.init_transactions(30.0)
    for number, value in enumerate(log):
        writer.begin_transaction()
        writer.produce(name, orjson.dumps([event(9_000 + number)] * 5), b"s")
        writer.flush(30.0)
        writer.abort_transaction(30.0)
        writer.begin_transaction()
        writer.produce(name, value, b"s")
        writer.commit_transaction(30.0)
    deployment.start_all()
    deployment.wait_published("s", 399)
    assert_same(deployment, reference(deployment.settings, log))


def test_a_learner_whose_first_events_are_gone_refuses(deploy: Deploy) -> None:
    deployment = deploy(*SETTINGS)
    deployment.start_all()
    deployment.send(*messages(0, 600), events.FLUSH)
    deployment.wait_published("s", 599)
    deployment.stop("learner-1")
    partition = events.partition(b"s", deployment.settings.topics.events)
    place = TopicPartition(deployment.settings.prefix + "events", partition, 10)
    deployment.admin.delete_records([place])[place].result()
    deployment.start("learner")
    assert deployment.exit_code("learner-1") == ExitCode.STATE
    said = deployment.log("learner-1")
    assert "again from offset 0" in said and "keeps it from 10 on" in said and "another --prefix" in said


def checkpoint_keys(deployment: Deployment, partition: int) -> list[checkpoints.Key]:
    """Of all parts of checkpoints, the newest first."""
    name = f"{deployment.settings.prefix}checkpoints"
    keys = [checkpoints.Key.decode(key) for key in read_to_end(connection(deployment.settings), name, partition, 30.0)]
    return sorted(keys, key=lambda key: key.version, reverse=True)


def test_with_checkpoints_the_first_events_may_be_gone(deploy: Deploy) -> None:
    deployment = deploy(*SETTINGS, *OFTEN)
    log = [*messages(0, 2_000), events.FLUSH]
    deployment.start_all()
    deployment.send(*log)
    deployment.wait_published("s", 1_999)
    deployment.kill("learner-1")
    partition = events.partition(b"s", deployment.settings.topics.events)
    place = TopicPartition(deployment.settings.prefix + "events", partition, 10)
    deployment.admin.delete_records([place])[place].result()
    deployment.start("learner")
    further = [*messages(2_000, 2_400), events.FLUSH]
    deployment.send(*further)
    deployment.wait_published("s", 2_399)
    assert "goes on from its checkpoint at row" in deployment.log("learner-1")
    assert_same(deployment, reference(deployment.settings, [*log, *further]))


@pytest.mark.parametrize("case", ["another key", "future", "damaged"])
def test_a_checkpoint_that_cannot_be_used_is_refused_or_passed_over(case: str, deploy: Deploy) -> None:
    deployment = deploy(*SETTINGS, *OFTEN)
    log = [*messages(0, 1_000), events.FLUSH]
    deployment.start_all()
    deployment.send(*log)
    deployment.wait_published("s", 999)
    partition = events.partition(b"s", deployment.settings.topics.events)
    count = 1_000

    def are_two() -> bool:
        """A checkpoint that took long is followed by as long a pause; further events come for when that is over."""
        nonlocal count
        if len(checkpoint_keys(deployment, partition)) > 1:
            return True
        more = [*messages(count, count + 100)]
        deployment.send(*more)
        log.extend(more)
        count += 100
        return False

    wait_for("two checkpoints", are_two)
    deployment.stop("learner-1")
    key = checkpoint_keys(deployment, partition)[0]
    variables = {}
    if case == "another key":
        variables["GLASSTREAM_HMAC_KEY"] = "not the key that it was sealed with"
    else:
        body = frames.encode("checkpoint", 2, {"rows": key.version}, {})
        value = chunks.split("checkpoint-chunk", body)[0] if case == "future" else b"damaged"
        deployment.producer.produce(
            f"{deployment.settings.prefix}checkpoints", value, key._replace(chunk=0).encode(), partition
        )
        deployment.producer.flush(30.0)
    deployment.start("learner", **variables)
    if case == "damaged":
        further = [*messages(count, count + 200), events.FLUSH]
        deployment.send(*further)
        deployment.wait_published("s", count + 199)
        assert "is damaged; an older one is used" in deployment.log("learner-1")
        assert_same(deployment, reference(deployment.settings, [*log, *further]))
        return
    assert deployment.exit_code("learner-1") == ExitCode.STATE
    said = deployment.log("learner-1")
    assert "the checkpoint of stream 's' at row" in said
    assert ("HMAC" in said) if case == "another key" else ("version 2" in said and "new epoch" in said)


@pytest.mark.parametrize("stage", ["learner", "fold"])
def test_changed_settings_are_refused_by_name(stage: str, deploy: Deploy) -> None:
    deployment = deploy(*SETTINGS)
    deployment.start_all()
    deployment.send(*messages(0, 300), events.FLUSH)
    deployment.wait_published("s", 299)
    deployment.stop(f"{stage}-1")
    deployment.start(stage, GLASSTREAM_EXPLAIN_ALPHA="0.05", GLASSTREAM_SEED="4", GLASSTREAM_BLOCK_ROWS="7")
    assert deployment.exit_code(f"{stage}-1") == ExitCode.STATE
    said = deployment.log(f"{stage}-1")
    assert "explain.alpha: was 0.001, is 0.05; seed: was 3, is 4;" in said
    assert "block.rows" not in said


def test_a_new_epoch_goes_on_from_here_under_other_settings(deploy: Deploy) -> None:
    """What comes after is what a fresh run under the new settings says of the events after; nothing is refused."""
    deployment = deploy(*SETTINGS, *OFTEN)
    before, after = [*messages(0, 600), events.FLUSH], [*messages(600, 1_400), events.FLUSH]
    deployment.start_all()
    deployment.send(*before)
    deployment.wait_published("s", 599)
    for name in ("learner-1", "explainer-1", "fold-1"):
        assert deployment.stop(name) == ExitCode.OK
    for stage in ("fold", "learner", "explainer"):
        deployment.start(stage, GLASSTREAM_SEED="4", GLASSTREAM_WORKER_NEW_EPOCH="true")
    deployment.send(*after)
    deployment.wait_published("s", 799)
    changed = msgspec.structs.replace(deployment.settings, seed=4, epoch=1)
    first, second = reference(deployment.settings, before), reference(changed, after)
    assert_same(deployment, {topic: first[topic] + second[topic] for topic in first})
    assert "epoch 1 begins at offset" in deployment.log("learner-1")
    deployment.kill("learner-1")  # and it is gone on with as any other
    deployment.start("learner", GLASSTREAM_SEED="4", GLASSTREAM_WORKER_NEW_EPOCH="true")
    deployment.send(*messages(1_400, 1_600), events.FLUSH)
    deployment.wait_published("s", 999)
    second = reference(changed, [*after, *messages(1_400, 1_600), events.FLUSH])
    assert_same(deployment, {topic: first[topic] + second[topic] for topic in first})


def test_a_missing_topic_and_a_wrong_partition_count_are_said_before_the_start(deploy: Deploy) -> None:
    deployment = deploy(*SETTINGS)
    deployment.start("learner", GLASSTREAM_TOPICS_WORK="5")
    assert deployment.exit_code("learner-1") == ExitCode.BROKER
    assert f"{deployment.settings.prefix}work" in deployment.log("learner-1")
    deployment.start("fold", "fold-1", GLASSTREAM_PREFIX="nothing-here.")
    assert deployment.exit_code("fold-1") == ExitCode.BROKER
    assert "nothing-here.contributions" in deployment.log("fold-1")


def test_a_sealed_model_under_another_key_is_refused(deploy: Deploy) -> None:
    deployment = deploy("model.name=tests.integration.models:knn", "model.task=regression")
    deployment.start("fold")
    deployment.start("learner")
    deployment.start("explainer", "explainer-1", GLASSTREAM_HMAC_KEY="not-the-key-of-the-learner")
    values = [orjson.dumps([{**event(n), "y": n % 7} for n in range(s, s + 20)]) for s in range(0, 300, 20)]
    deployment.send(*values, events.FLUSH)
    assert deployment.exit_code("explainer-1") == ExitCode.FAILED
    assert "HMAC" in deployment.log("explainer-1")
    deployment.start("explainer", "explainer-2")
    deployment.wait_published("s", 299)
    assert importance.decode(deployment.values("importance")[-1]).coverage == 1.0


def test_who_sheds_goes_on_and_says_what_was_not_explained(deploy: Deploy) -> None:
    """Nobody explains while the learner learns: with `lag = shed` it goes on, and old snapshots are ended."""
    deployment = deploy(*SETTINGS, "limits.lag=shed", "limits.snapshot_bytes=1", "snapshot.target=0")
    deployment.start("learner")
    log = [*messages(0, 3_200), events.FLUSH]
    deployment.send(*log)
    wait_for("all rows learned", lambda: deployment.poll().progress.rows.get("s") == 3_200)
    deployment.start("fold")
    deployment.start("explainer")
    deployment.wait_published("s", 3_199)
    newest = importance.decode(deployment.values("importance")[-1])
    assert 0.0 < newest.coverage < 0.2
    assert "old snapshots are ended" in deployment.log("learner-1")
    assert "waits for the fold" not in deployment.log("learner-1")
    assert "limits.lag" in deployment.log("fold-1")
    predictions = reference(deployment.settings, log)["predictions"]
    assert deployment.values("predictions") == predictions
