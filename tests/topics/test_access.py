"""The rights of each role: exactly what the contracts say is read, and nothing that a neighbour writes."""

import pytest
from click.testing import CliRunner

from glasstream.app.command.cli import cli
from glasstream.base.errors import InputError
from glasstream_topics import ALL, Topic, drift, events_dead
from glasstream_topics.access import READERS, ROLES, Grant, grants
from glasstream_topics.errors import TopicError


def of(role: str, kind: str, avro: tuple[Topic, ...] = ()) -> dict[str, Grant]:
    return {grant.name: grant for grant in grants("p.", avro=avro) if (grant.role, grant.kind) == (role, kind)}


def test_a_consumer_reads_what_is_published_and_no_events_or_internal_records() -> None:
    read = {name for name, grant in of("consumer", "topic").items() if grant.operations == ("read",)}
    names = (
        "importance",
        "effects",
        "attributions",
        "drift",
        "incidents",
        "novelty",
        "watching",
        "comparisons",
        "segments",
    )
    assert read == {f"p.{name}" for name in ("events.dead", "predictions", "groups", *names)}


def test_only_one_role_writes_each_topic_but_four() -> None:
    for topic in ALL:
        writers = {
            role for role in ROLES if "write" in getattr(of(role, "topic").get(f"p.{topic.name}"), "operations", ())
        }
        several = {"contributions": 2, "events": 3, "events.dead": 3, "models": 0}  # the operator writes any topic
        assert len(writers) == several.get(topic.name, 1), topic.name


def test_who_writes_in_transactions_may_use_their_own_names_only() -> None:
    for role in ("learner", "aggregator", "novelty", "labels", "intake", "compare"):
        assert set(of(role, "transactional-id")) == {f"p.{role}."}
    assert set(of("operator", "transactional-id")) == {"p.dead."}  # of `dead replay`
    for role in ("explainer", "producer", "consumer"):
        assert not of(role, "transactional-id")


def test_who_publishes_comparisons_reads_predictions_and_late_labels_only() -> None:
    assert {name: grant.operations for name, grant in of("compare", "topic").items()} == {
        "p.events": ("read", "describe-configs"),
        "p.predictions": ("read",),
        "p.comparisons": ("read", "write"),
    }
    assert set(of("compare", "group")) == {READERS}


def test_who_publishes_in_avro_reads_and_writes_only_the_chosen_topics() -> None:
    """Without such topics there is nothing to allow."""
    chosen = (events_dead.TOPIC, drift.TOPIC)
    names = ("events.dead", "drift")
    assert {name: grant.operations for name, grant in of("avro", "topic", chosen).items()} == {
        **{f"p.{name}": ("read",) for name in names},
        **{f"p.{name}.avro": ("write",) for name in names},
    }
    assert set(of("avro", "transactional-id", chosen)) == {"p.avro."}
    assert set(of("avro", "group", chosen)) == {"p.avro", READERS}
    assert set(of("consumer", "topic", chosen)) - set(of("consumer", "topic")) == {f"p.{name}.avro" for name in names}
    others = {grant for grant in grants("p.", avro=chosen) if grant.role not in ("avro", "consumer")}
    assert others == {grant for grant in grants("p.") if grant.role != "consumer"}


def test_a_principal_may_be_of_another_name_or_kind() -> None:
    given = {"learner": "ann", "aggregator": "Group:ops"}
    found = {grant.role: grant.principal for grant in grants("p.", given)}
    assert (found["learner"], found["aggregator"], found["producer"]) == (
        "User:ann",
        "Group:ops",
        "User:glasstream-producer",
    )
    with pytest.raises(TopicError, match=r"expected learner, .*; got lerner"):
        grants("p.", {"lerner": "ann"})


def test_the_command_prints_lines_of_kafkas_own_tool() -> None:
    done = CliRunner().invoke(cli, ["topics", "acls", "--prefix", "p.", "--principal", "aggregator=folder"])
    lines = done.output.splitlines()
    assert [line[2:] for line in lines if line.startswith("#")] == [role for role in ROLES if role != "avro"]
    assert (
        "kafka-acls.sh --bootstrap-server HOST:PORT --add --allow-principal 'User:folder' --operation read "
        "--operation write --topic 'p.progress.aggregator'"
    ) in lines
    assert any(line.endswith("--transactional-id 'p.learner.' --resource-pattern-type prefixed") for line in lines)


def test_a_role_that_there_is_not_is_refused() -> None:
    done = CliRunner().invoke(cli, ["topics", "acls", "--principal", "lerner=ann"])
    assert "--principal: roles: expected learner, explainer" in str(done.exception)
    assert isinstance(done.exception, InputError) and str(done.exception).endswith("got lerner")
    done = CliRunner().invoke(cli, ["topics", "acls", "--principal", "learner"])
    assert "--principal: expected ROLE=NAME, got 'learner'" in str(done.exception)


def test_only_the_operator_may_read_settings_of_brokers_and_no_role_may_change_them() -> None:
    """The doctor checks them. The name of the cluster is no argument of Kafka's tool."""
    (rule,) = (grant for grant in grants("p.") if grant.kind == "cluster")
    assert (rule.role, rule.operations) == ("operator", ("describe-configs",))
    assert rule.command("kafka:9092").endswith("--operation describe-configs --cluster")
