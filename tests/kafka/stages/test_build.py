"""How a stage is built: what it imports, compiles and checks before it joins its group."""

import asyncio
import os
import subprocess
import sys
from typing import Any

import pytest

from glasstream.app.configuration import load
from glasstream.base.errors import SettingsError, TopicError
from glasstream.kafka.stages import build
from glasstream.kafka.transport.input_topic import SizeCheck, TopicIdentity
from glasstream.kafka.transport.options import options

KEY = b"a key of sixteen bytes"


def test_a_worker_has_one_name_and_a_fork_another() -> None:
    """Its name decides what is fenced, so whoever asks twice must not be told of two workers."""
    settings = load()
    name = options("learner", settings).instance
    assert options("learner", settings).instance == options("aggregator", settings).instance == name
    assert options("learner", load(assignments=["worker.instance=mine"])).instance == "mine"
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        os.write(writer, options("learner", settings).instance.encode())
        os._exit(0)
    os.waitpid(child, 0)
    other = os.read(reader, 100).decode()
    assert len(other) == len(name) and other != name


@pytest.fixture(autouse=True)
def _webhook(monkeypatch: pytest.MonkeyPatch) -> None:
    """The notifier is not built without an address."""
    monkeypatch.setenv("GLASSTREAM_NOTIFY_URL", "https://hooks.example.org/services/secret")


@pytest.mark.program
def test_who_makes_no_model_imports_no_river() -> None:
    """Nor what River brings: two seconds of every start."""
    program = (
        "import sys\n"
        "from glasstream.kafka.stages import build\n"
        "from glasstream.app.configuration import load\n"
        "for make in (build._explainer, build._aggregator, build._novelty, build._notify):\n"
        "    made = make(load(), None)\n"
        "    print(make.__name__, *sorted({'river', 'scipy.stats', 'pandas'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["_explainer", "_aggregator", "_novelty", "_notify"]


@pytest.mark.parametrize("name", ["learner", "explainer", "aggregator"])
def test_kernels_are_compiled_before_the_worker_joins_its_group(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    warmed: list[Any] = []
    built: list[Any] = []
    monkeypatch.setenv("GLASSTREAM_HMAC_KEY", KEY.hex())
    monkeypatch.setattr(build, "warm_up", lambda *given: warmed.append(given))
    monkeypatch.setattr(build, "run_worker", lambda make, options, secrets: built.append(make()))
    settings = load()
    build.run(name, settings)
    assert warmed == [(name, settings)] and not built[0].settled


@pytest.mark.parametrize(("name", "topic"), [("learner", "events"), ("novelty", "events"), ("labels", "labels")])
def test_a_stage_refuses_a_topic_whose_messages_it_cannot_hold(
    name: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever reads what others write checks it before anything else of the stage starts."""
    refused: list[str] = []

    def refuse(check: SizeCheck) -> None:
        refused.append(check.topic)
        raise TopicError("too large")

    monkeypatch.setattr(SizeCheck, "check", refuse)

    async def start() -> None:
        stage = getattr(build, f"_{name}")(load(), KEY)
        with pytest.raises(TopicError, match="too large"):
            await stage.services[0].start()

    asyncio.run(start())
    assert refused == [load().prefix + topic]


@pytest.mark.parametrize(
    ("name", "topic"),
    [("learner", "events"), ("novelty", "events"), ("labels", "labels"), ("aggregator", "contributions")],
)
def test_state_belongs_to_the_topic_that_the_stage_reads(
    name: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TopicIdentity, "__call__", lambda identity: f"the id of {identity.topic}")
    stage = getattr(build, f"_{name}")(load(), KEY)
    assert stage.make_state(0)._identify() == f"the id of {stage.input_topic}"
    assert stage.input_topic == load().prefix + topic


def test_only_what_the_learner_publishes_again_may_have_holes() -> None:
    """Every other stage stops before a hole in its input."""
    names = ("learner", "explainer", "aggregator", "novelty", "labels", "notify")
    stages = {name: getattr(build, f"_{name}")(load(), KEY) for name in names}
    assert {name for name, stage in stages.items() if stage.replaceable_input} == {"explainer", "aggregator"}


def test_the_avro_publisher_reads_what_is_published_and_needs_a_registry() -> None:
    with pytest.raises(SettingsError, match=r"avro\.registry is not set"):
        build._avro(load(), KEY)
    relay = build._avro(load(assignments=["avro.registry=http://localhost:9", "avro.topics=drift,events.dead"]), KEY)
    assert relay.inputs == ("glasstream.events.dead", "glasstream.drift")
    assert relay.topics == {"glasstream.events.dead.avro": None, "glasstream.drift.avro": None}
    assert relay.options.group == "glasstream.avro"


def test_the_address_and_the_keys_of_the_webhook_are_kept_out_of_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLASSTREAM_REGISTRY_LOGIN", "ann:secret")
    monkeypatch.setenv("GLASSTREAM_NOTIFY_KEY", "a key of sixteen bytes,another of sixteen bytes")
    monkeypatch.setattr(build, "run_worker", lambda make, options, secrets: told.extend(secrets))
    for stage, expected in (
        ("notify", {"/services/secret", "a key of sixteen bytes", "another of sixteen bytes"}),
        ("labels", set()),
        ("intake", {"ann:secret", "secret"}),
        ("avro", {"ann:secret", "secret"}),
    ):
        told: list[str] = []
        build.run(stage, load())
        assert set(told) == expected
