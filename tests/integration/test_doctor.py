"""`doctor` finds a healthy deployment well, and names the cause of each thing that can be wrong with one."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import orjson
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions, ResourceType

from glasstream.app.command.exit_codes import DIFFERS
from glasstream.app.configuration import load
from glasstream.app.operate.doctor import examine, machine, schemas
from glasstream.app.operate.doctor.finding import DoctorContext, Finding, Level
from glasstream.kafka.stages.registry import LOGIN, subjects
from glasstream.kafka.transport.worker import ExitCode
from glasstream_topics import admin, avro, drift, events, novelty, progress_novelty
from tests.support.commands import Commands
from tests.support.deployment import HMAC_KEY, OFTEN, SETTINGS, Deployment
from tests.support.logs import messages
from tests.support.metrics import address, ask, metrics, total
from tests.support.schema_registry import registry
from tests.support.waiting import wait_for

Deploy = Callable[..., Deployment]
GIVEN = (*SETTINGS, *OFTEN, "topics.events=2", "topics.requests=2")
NO_WORKERS = {"learner workers", "explainer workers", "aggregator workers"}
SEALED = {"GLASSTREAM_HMAC_KEY": HMAC_KEY}


def found(
    deployment: Deployment,
    *assignments: str,
    environment: Mapping[str, str] = SEALED,
    now: Callable[[], float] = time.time,
    probe: bool = False,
) -> list[Finding]:
    settings = deployment.settings
    given = [f"broker={settings.broker}", f"prefix={settings.prefix}", *GIVEN, *assignments]
    return list(examine(DoctorContext(load(assignments=given), environment, now, probe)))


def causes(findings: list[Finding]) -> list[tuple[str, str]]:
    """Return the failed checks with their messages. Every finding but ok says what to do, and none shows the key."""
    assert all(one.do for one in findings if one.level is not Level.OK)
    assert HMAC_KEY not in str(findings)
    return [(one.check, one.what) for one in findings if one.level is Level.FAIL]


def assert_cause(findings: list[Finding], check: str, *texts: str, idle: bool = False) -> None:
    """This fails, and nothing else; but for the workers of an idle deployment."""
    failed = [one for one in causes(findings) if not idle or one[0] not in NO_WORKERS]
    assert {name for name, _ in failed} == {check}, failed
    assert all(any(text in what for _, what in failed) for text in texts), failed


def alter(deployment: Deployment, topic: str, name: str, value: str) -> None:
    entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, deployment.settings.prefix + topic, incremental_configs=[entry])
    for future in deployment.admin.incremental_alter_configs([resource]).values():
        future.result()


def empty_topic(deployment: Deployment, topic: str, partition: int) -> None:
    """Delete all records of a partition."""
    place = TopicPartition(deployment.settings.prefix + topic, partition, -1)
    for future in deployment.admin.delete_records([place]).values():
        future.result()


def test_what_is_wrong_with_this_machine_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def key(*assignments: str, **environment: str) -> list[Finding]:
        return machine.secrets(DoctorContext(load(assignments=assignments), environment, time.time))

    assert not causes(key(GLASSTREAM_HMAC_KEY=HMAC_KEY))
    assert not causes(key("model.name=tree"))
    conditional = key("model.name=tree", "explain.methods=isage", "isage.removal=conditional")
    assert_cause(conditional, "hmac key", "no key is set, and the learner does not start without one: isage.removal")
    assert_cause(key(GLASSTREAM_HMAC_KEY="too short"), "hmac key", "expected at least 16 bytes")
    file = tmp_path / "hmac.key"
    assert_cause(key(GLASSTREAM_HMAC_KEY_FILE=str(file)), "hmac key", f"{file} cannot be read")
    file.write_text(HMAC_KEY)
    file.chmod(0o644)
    assert_cause(key(GLASSTREAM_HMAC_KEY_FILE=str(file)), "hmac key", f"{file} can be read or written by all users")
    file.chmod(0o600)
    assert not causes(key(GLASSTREAM_HMAC_KEY_FILE=str(file)))
    file.write_text(f"{'new' * 11}\n{HMAC_KEY}\n")
    several = key(GLASSTREAM_HMAC_KEY_FILE=str(file))
    assert not causes(several) and "set, and 1 older for verification" in [one.what for one in several]
    assert_cause(key(GLASSTREAM_HMAC_KEY=f"{HMAC_KEY},short"), "hmac key", "at least 16 bytes in each key")
    warned = key(GLASSTREAM_HMAC_KEY="seventeen letters")
    assert [one.what for one in warned if one.level is Level.WARN] == ["the key has 17 bytes; use 32"]

    def version(package: str, real: Callable[[str], str] = machine.version) -> str:
        return "0.1.0" if package == "river" else real(package)

    monkeypatch.setattr(machine, "version", version)
    assert_cause(machine.packages(DoctorContext(load(), {}, time.time)), "packages", "river: expected", "got 0.1.0")
    monkeypatch.undo()
    assert not causes(machine.packages(DoctorContext(load(), {}, time.time)))
    wrong = load(assignments=["model.name=no.such.module:factory"])
    assert_cause(machine.usable(DoctorContext(wrong, {}, time.time)), "settings", "cannot import 'no.such.module'")


def test_what_is_wrong_with_the_schema_registry_is_named() -> None:
    def looked(*assignments: str) -> list[Finding]:
        return schemas.registered(DoctorContext(load(assignments=assignments), {LOGIN: "ann:secret"}, time.time))

    assert not looked(), "nobody asked for Avro"
    with registry() as there:
        given = (f"avro.registry={there.address}", "avro.topics=drift,novelty")
        there.login = "ann:secret"
        (well,) = looked(*given)
        assert well.level is Level.OK and "has 0 of 2 schemas" in well.what
        assert_cause(looked(*given, "avro.register=false"), "schema registry", "glasstream.drift.avro-value")
        made, there.incompatible = subjects(load(assignments=given), {LOGIN: "ann:secret"}), True
        made.id_of("glasstream.drift.avro-value", avro.schema(novelty.TOPIC), "")
        assert_cause(looked(*given), "schema registry", "refuses", "glasstream.drift.avro-value")
        there.incompatible = False
        found = subjects(load(assignments=given), {LOGIN: "ann:secret"})
        for topic in (drift.TOPIC, novelty.TOPIC):
            found.id_of(f"glasstream.{topic.name}.avro-value", avro.schema(topic), "")
        assert not causes(looked(*given, "avro.register=false"))
        there.login = "ann:other"
        assert_cause(looked(*given), "schema registry", "401")
    assert_cause(looked("avro.registry=http://localhost:9"), "schema registry", "gives no schema")


def test_a_broker_that_does_not_answer_is_told_from_settings_that_no_client_takes() -> None:
    def answers(*assignments: str) -> list[Finding]:
        return list(examine(DoctorContext(load(assignments=["checkpoint.seconds=0", *assignments]), {}, time.time)))

    assert_cause(answers("broker=127.0.0.1:1"), "broker", "no answer from 127.0.0.1:1", "refused")
    assert_cause(answers("broker=embedded"), "broker", "expected HOST:PORT,... of a running Kafka, got 'embedded'")
    wrong = answers("broker=127.0.0.1:1", "kafka.sasl.pasword=very-secret")
    assert_cause(wrong, "broker", "the client's settings cannot be used")
    assert "very-secret" not in str(wrong)


def test_metrics_say_what_has_happened_and_what_is_wrong_with_a_deployment_is_named(
    deploy: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a broker has groups without members, configuration of topics, and records and topics that can be deleted."""
    deployment = deploy(*GIVEN)
    commands = Commands(deployment, monkeypatch)
    prefix, partition = deployment.settings.prefix, events.partition(b"s", 2)
    deployment.start_all()
    deployment.send(*messages(0, 600), events.FLUSH)
    deployment.wait_published("s", 599)
    metrics_say_what_has_happened(deployment)
    well = found(deployment, probe=True)
    assert not causes(well), well
    assert {"broker", "kafka", "clock", "topics", "copies", "retention", "lag", "state", "learner workers"} < {
        one.check for one in well if one.level is Level.OK
    }
    assert {one.check for one in well if one.level is Level.WARN} <= {"hmac key"}, "it needs no optional stage"
    assert not [name for name in deployment.admin.list_topics(timeout=10).topics if name.startswith(f"{prefix}doctor")]

    # settings that do not fit what is there
    ahead = found(deployment, now=lambda: time.time() - 7_200, probe=True)
    assert_cause(ahead, "clock", "ahead of this machine's; Kafka refuses")
    other = found(deployment, environment={"GLASSTREAM_HMAC_KEY": "another key; of 32 letters or more"})
    assert_cause(other, "hmac key", "the checkpoint of stream 's' was sealed with another key")
    assert_cause(found(deployment, "seed=4"), "state", f"{prefix}progress.learner", "seed: was 3, is 4")
    assert_cause(found(deployment, "topics.events=3"), "topics", "expected partitions 3, found 2")
    said = commands.run("doctor", "--no-probe", *(f"--set={one}" for one in (*GIVEN, "seed=4")))
    assert said.code == DIFFERS and "fail state" in said.out and "→ set them back" in said.out
    assert HMAC_KEY not in said.out

    # a novelty detector that has ended is missed where the settings ask for one
    ran = progress_novelty.encode(progress_novelty.NoveltyPartitionProgress(epoch=0, offset=0, used=0, fingerprint={}))
    deployment.producer.produce(f"{prefix}progress.novelty", ran[1], ran[0], partition)
    assert deployment.producer.flush(30.0) == 0
    assert not causes(found(deployment))
    missed = causes(found(deployment, f"explain.methods={deployment.settings.explain.methods},novelty"))
    assert [check for check, _ in missed] == ["novelty workers", "novelty lag", "state"], missed
    assert "explain.methods names novelty" in missed[0][1] and "no worker is processing it" in missed[1][1]
    assert f"{prefix}progress.novelty[{partition}]" in missed[2][1]

    # a stage that a topic in use needs
    deployment.producer.produce(f"{prefix}labels", b'{"id": "1", "y": 1}', b"s", partition)
    assert deployment.producer.flush(30.0) == 0
    assert_cause(found(deployment), "labels workers", f"{prefix}labels holds messages")
    empty_topic(deployment, "labels", partition)
    assert not causes(found(deployment))

    # input that is rejected
    deployment.send(b"no event")
    wait_for("it is rejected", lambda: deployment.poll() and deployment.records["events.dead"])
    (warned,) = (one for one in found(deployment) if one.check == "dead letters")
    assert warned.level is Level.WARN and "not_json" in warned.what
    assert total(metrics(deployment, "learner-1"), "dead_letters_total", "not_json") == 1

    # nobody works
    for worker in ("explainer-1", "aggregator-1", "learner-1"):
        assert deployment.stop(worker) == ExitCode.OK
    assert {check for check, _ in causes(found(deployment))} == NO_WORKERS
    said = commands.run("doctor", "--no-probe", *(f"--set={one}" for one in GIVEN))
    assert said.code == DIFFERS and "start `glasstream worker learner`" in said.out
    group = f"{prefix}explainer"
    deployment.admin.delete_consumer_groups([group])[group].result()
    assert {check for check, _ in causes(found(deployment))} == NO_WORKERS, "all is explained"
    deployment.send(*messages(600, 700))
    assert_cause(found(deployment), "learner lag", "5 messages behind, and no worker is processing it", idle=True)

    # input that is lost
    empty_topic(deployment, "events", partition)
    assert_cause(found(deployment), "state", "the records between are lost", idle=True)

    # topics that are not as they should be
    alter(deployment, "contributions", "retention.ms", "1000")
    wait_for(
        "the broker has heard of it",
        lambda: admin.verify(deployment.admin, {"events": 2, "requests": 2}, prefix),
    )
    told = causes(found(deployment))
    assert ("topics", f"{prefix}contributions: expected retention.ms -1, found 1000") in told
    assert "state" in {check for check, _ in told}, "the other checks go on"
    alter(deployment, "contributions", "retention.ms", "-1")
    deployment.admin.delete_topics([f"{prefix}novelty"])[f"{prefix}novelty"].result()
    wait_for("it is gone", lambda: f"{prefix}novelty" not in deployment.admin.list_topics(timeout=10).topics)
    told = causes(found(deployment))
    assert ("topics", f"{prefix}novelty: expected the topic to exist, found none") in told

    # partitions that were added to the input
    deployment.admin.create_partitions([NewPartitions(f"{prefix}events", 3)])[f"{prefix}events"].result()
    wait_for(
        "they are there",
        lambda: len(deployment.admin.list_topics(timeout=10).topics[f"{prefix}events"].partitions) == 3,
    )
    told = [what for check, what in causes(found(deployment)) if check == "topics"]
    assert any(f"{prefix}events: expected partitions 2, found 3" in what for what in told)
    assert f"{prefix}events has 3 partitions" in commands.well("state", "show").out.replace("\n", " ")
    assert "not_json" in commands.well("dead", "list").out
    assert "reset mark written" in commands.well("reset", "s", "--yes").out


def metrics_say_what_has_happened(deployment: Deployment) -> None:
    """Of 600 rows on a stream."""
    for worker in ("learner-1", "explainer-1", "aggregator-1"):
        for path in ("/healthz", "/readyz"):
            status, body = ask(address(deployment, worker) + path)
            assert (status, orjson.loads(body)["stage"]) == (200, worker[:-2])
    learner = metrics(deployment, "learner-1")
    assert learner["events_total s"] == learner["rows_learned_total s"] == 600
    assert 0 < learner["score accuracy s"] <= 1
    assert 256 <= learner["model_version s"] < 600
    assert learner["checkpoints_total s"] >= 1 and learner["checkpoint_bytes s"] > 1_000
    assert learner["checkpoint_age_seconds s"] < 600
    assert learner["step_seconds_total feed"] > 0 and learner["step_seconds_total commit"] > 0
    wait_for("nothing is left", lambda: metrics(deployment, "learner-1")["rows_ahead s"] == 0)
    explainer = metrics(deployment, "explainer-1")
    assert explainer["rows_explained_total"] == 500 and explainer["blocks_total failed"] == 0
    assert explainer["step_seconds_total explain"] > 0
    aggregator = metrics(deployment, "aggregator-1")
    assert aggregator["rows_aggregated_total s"] == 600 and aggregator["coverage s"] == 1.0
    published = [row for row in range(100, 600) if (row + 1) % 50 == 0]
    assert total(aggregator, "records_total", "importance") == len(published)
    partition = str(events.partition(b"s", deployment.settings.topics.events))
    assert aggregator[f"input_lag {partition}"] <= 2  # markers of transactions have offsets too
