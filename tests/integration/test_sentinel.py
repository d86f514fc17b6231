"""The sentinel on a real Kafka says what the plain loop says, through crashes and with any number of workers."""

import random
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress

import orjson
import pytest

from pipeline.command.reference import Reference
from pipeline.transport.worker import ExitCode
from tests.deployment import Deployment, wait_for
from tests.integration.conftest import Run
from tests.integration.test_health import metrics
from topics import events

Deploy = Callable[..., Deployment]
SETTINGS = (
    "explain.methods=ipfi,novelty", "model.name=linear", "topics.events=2", "sentinel.window=200",
    "sentinel.stride=300", "sentinel.delay=150", "sentinel.held=0.5", "sentinel.rate=0.05", "sentinel.learners=5",
    "sentinel.anchor=400", "sentinel.grace=100", "transaction.rows=100",
)  # fmt: skip
STREAMS = (b"a", b"b", b"d")
"""Not all of one partition."""
COUNT = 3_000


def log(key: bytes) -> list[bytes | None]:
    """Events, every second one with a label; some messages that are no events."""
    rng = random.Random(key)
    made = []
    for n in range(COUNT):
        x = {"a": rng.gauss(4.0 * (n > 2_000), 1), "b": rng.gauss(0, 1), "c": f"t{rng.randrange(3)}"}
        y = {"y": x["a"] * x["b"] > 0} if n % 2 else {}
        made.append({"id": n, "x": x, **y})
    values: list[bytes | None] = [orjson.dumps(made[n : n + 20]) for n in range(0, COUNT, 20)]
    values[50:50] = [b"{", None, b'[{"x": {}}, {"x": {"a": 1.0}, "id": "odd"}]']
    return [*values, events.FLUSH]


LOGS = {key: log(key) for key in STREAMS}
END = max(map(len, LOGS.values()))


def expected(deployment: Deployment) -> dict[bytes, list[bytes]]:
    """The records of each stream in the plain loop."""
    found: dict[bytes, list[bytes]] = defaultdict(list)
    for key, values in LOGS.items():
        for topic, record in Reference(deployment.settings).run((key, value) for value in values):
            if topic == "novelty":
                found[key].append(record)
    return dict(found)


def got(deployment: Deployment) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = defaultdict(list)
    for message in deployment.records["novelty"]:
        found[message.key() or b""].append(message.value() or b"")
    return dict(found)


def send(deployment: Deployment, first: int, end: int) -> None:
    for number in range(first, end):
        for key, values in LOGS.items():
            for value in values[number : number + 1]:
                deployment.send(value, key=key)


def scored(deployment: Deployment) -> int:
    deployment.poll()
    return len(deployment.records["novelty"])


@pytest.mark.parametrize("workers", [1, 2])
def test_killed_sentinels_have_successors_that_go_on_exactly(workers: int, deploy: Deploy) -> None:
    deployment = deploy(*SETTINGS)
    want = expected(deployment)
    names = [f"sentinel-{number + 1}" for number in range(workers)]
    for name in names:
        deployment.start("sentinel", name)
    for turn, some in enumerate((100, 1_000, 3_000)):
        send(deployment, END * turn // 4, END * (turn + 1) // 4)
        wait_for(f"{some} are scored", lambda some=some: scored(deployment) > some)
        deployment.kill(names[turn % workers])
        deployment.start("sentinel", names[turn % workers])
    send(deployment, END * 3 // 4, END)
    wait_for("all is watched", deployment.watched)
    deployment.read_all()
    assert got(deployment) == want
    said: dict[str, float] = {}

    def have_told() -> bool:
        """Every stream is with somebody who says all: a worker that was started again may join later than the rest."""
        deployment.poll()
        said.clear()
        with suppress(OSError):  # nobody listens where its predecessor did
            for name in names:
                said.update(metrics(deployment, name))
        return all(said.get(f"events_scored_total {key.decode()}") == len(records) for key, records in want.items())

    wait_for("their metrics", have_told)
    for key, records in want.items():
        stream = key.decode()
        assert said[f"events_scored_total {stream}"] == len(records)
        assert said[f"events_flagged_total {stream}"] == sum(b'"flagged":true' in record for record in records)
        assert said[f"maps_total {stream}"] > 3 and said[f"map_version {stream}"] > 1_500
    for name in names:
        assert deployment.stop(name) == ExitCode.OK
        assert "Traceback" not in deployment.log(name)


def test_other_settings_are_refused_by_name_and_a_new_epoch_begins(deploy: Deploy) -> None:
    deployment = deploy(*SETTINGS)
    deployment.start("sentinel")
    send(deployment, 0, 60)
    wait_for("some are scored", lambda: scored(deployment) > 500)
    assert deployment.stop("sentinel-1") == ExitCode.OK
    deployment.start("sentinel", "sentinel-2", GLASSTREAM_SENTINEL_WINDOW="100")
    assert deployment.exit_code("sentinel-2") == ExitCode.STATE
    said = deployment.log("sentinel-2")
    assert "sentinel.window: was 200, is 100" in said and "--new-epoch" in said and "Traceback" not in said
    deployment.start("sentinel", "sentinel-3", GLASSTREAM_SENTINEL_WINDOW="100", GLASSTREAM_WORKER_NEW_EPOCH="true")
    send(deployment, 60, 120)
    wait_for(
        "some of the new epoch",
        lambda: scored(deployment) and any(b'"epoch":1' in record for record in deployment.values("novelty")),
    )


@pytest.mark.parametrize("broker", ["embedded", "local"])
def test_a_run_says_what_the_plain_loop_says(broker: str, kafka: str, finished_run: Callable[..., Run]) -> None:
    arguments = (
        *("--explain", "ipfi,novelty", "--model", "linear", "--rows", "4000", "--set", "sentinel.window=300"),
        *("--set", "sentinel.stride=500", "--set", "sentinel.delay=200", "--set", "sentinel.held=0.5"),
    )
    one = finished_run(*arguments, "--broker", "none")
    other = finished_run(*arguments, "--broker", kafka if broker == "local" else broker)
    for topic in ("novelty", "importance", "predictions"):
        assert other.file(topic) == one.file(topic) != b""
    assert "events scored" in one.log and "events scored" in other.log


def test_a_run_that_is_not_asked_for_novelty_writes_none(finished_run: Callable[..., Run]) -> None:
    run = finished_run("--model", "linear", "--rows", "500", "--broker", "none")
    assert not (run.out / "novelty.jsonl").exists() and "novelty" not in run.log
