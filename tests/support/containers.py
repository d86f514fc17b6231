"""The image and the compose file on a real engine: `./ops/test --containers`.

    python -m tests.support.containers [--rows N] [--keep]

Where a Docker engine answers (DOCKER_HOST, or the default socket), the files of this checkout are copied, the image is
built, and compose is started as shipped, with all profiles but `intake`, `avro` and `notify`, which need a topic, a
registry and a webhook.
The bundled stream is produced while a learner is killed, explainers are added and the broker is restarted. Then what is
on the public topics must equal, byte for byte, what the same image gives with `--broker none`. PYTHON_IMAGE and
KAFKA_IMAGE may name other base images, as docker-compose.yml says.

Exit code 0: all is as it should be; 1: it is not; 77: there is no engine, or no compose, and nothing was run.
"""

import argparse
import base64
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from io import BytesIO
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
NO_ENGINE = 77
USER = 10_001
WORKERS = ("learner", "explainer", "aggregator", "novelty", "labels")
PROFILES = ("novelty", "labels", "page")
TOPICS = ("predictions", "importance", "effects", "drift", "incidents", "novelty", "events.dead")
STREAM = "agrawal"
LARGEST = 700e6
"""Bytes that the image may have, with its default extras."""
PATIENCE = 900.0
"""Seconds after which a condition that has not come is a failure; a loaded machine is slow."""

READ = """
import base64, json, sys
from confluent_kafka import Consumer, TopicPartition
found = {}
for topic in sys.argv[1:]:
    client = Consumer({"bootstrap.servers": "kafka:9092", "group.id": "reader", "enable.auto.commit": False,
                       "isolation.level": "read_committed", "enable.partition.eof": True})
    name = "glasstream." + topic
    parts = [TopicPartition(name, one, 0) for one in client.list_topics(name, 30).topics[name].partitions]
    client.assign(parts)
    ends, records = {part.partition: client.get_watermark_offsets(part)[1] for part in parts}, []
    while ends:
        message = client.poll(30)
        if message is None:
            raise SystemExit(f"{topic}: no answer of the broker")
        if message.error() is not None or message.offset() + 1 >= ends.get(message.partition(), 0):
            ends.pop(message.partition(), None)  # others may still write
        if message.error() is None and (topic == "events.dead" or json.loads(message.value())["stream"] == "agrawal"):
            records.append(base64.b64encode(message.value() or b"").decode())
    client.close()
    found[topic] = records
print(json.dumps(found))
"""
"""Run in a container: prints every committed record of topics, in base64."""
EXPECTED = "entrypoint run --broker none --rows {} --explain ipfi,novelty --out /tmp/out >&2 && tar -C /tmp/out -c ."
"""Run in a container: prints what is published without Kafka, as an archive."""


class Failure(Exception):
    """Something is not as it should be."""


class Compose:
    """One project of `docker compose`, and what it is asked."""

    def __init__(self, folder: Path, project: str) -> None:
        self.folder = folder
        self._command = ["docker", "compose", "--project-name", project, *(f"--profile={one}" for one in PROFILES)]

    def __call__(self, *words: str, given: str | None = None, check: bool = True) -> str:
        """Run a command of compose in the folder; what it printed."""
        done = subprocess.run(
            [*self._command, *words], cwd=self.folder, input=given, capture_output=True, text=True, check=False
        )
        if check and done.returncode:
            raise Failure(f"docker compose {' '.join(words)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def bytes_of(self, *words: str) -> bytes:
        """Run the command like `__call__`, and return what it printed as bytes."""
        done = subprocess.run([*self._command, *words], cwd=self.folder, capture_output=True, check=False)
        if done.returncode:
            raise Failure(f"docker compose {' '.join(words)}: exit code {done.returncode}\n{done.stderr.decode()}")
        return done.stdout

    @property
    def image(self) -> str:
        """The name of our image."""
        config = json.loads(self("config", "--format", "json"))
        return str(config["services"]["learner"]["image"])

    def states(self) -> list[dict[str, Any]]:
        """Return what `docker inspect` says about each container."""
        names = self("ps", "--all", "--quiet").split()
        done = subprocess.run(["docker", "inspect", *names], capture_output=True, text=True, check=False)
        return json.loads(done.stdout) if names and not done.returncode else []


def service(state: dict[str, Any]) -> str:
    return str(state["Config"]["Labels"]["com.docker.compose.service"])


def healthy(state: dict[str, Any]) -> bool:
    return bool(state["State"]["Running"] and state["State"].get("Health", {}).get("Status", "healthy") == "healthy")


def wait(what: str, holds: Callable[[], bool]) -> float:
    """Wait until it holds; the seconds that it took."""
    begun = time.monotonic()
    while not holds():
        if time.monotonic() - begun > PATIENCE:
            raise Failure(f"{what}: not so after {PATIENCE:.0f} s")
        time.sleep(0.5)
    return time.monotonic() - begun


def say(line: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)


def engine() -> str | None:
    """Why nothing can be run; None if there is an engine and compose."""
    if shutil.which("docker") is None:
        return "there is no command docker"
    for command in (["docker", "version"], ["docker", "compose", "version"]):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return f"`{' '.join(command)}` says: {(done.stderr or done.stdout).strip().splitlines()[-1]}"
    return None


def copied(folder: Path) -> None:
    """Put the files of the checkout, as git knows them, and the secrets into a folder, as containers.md says."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    for name in ("hmac.key", "page.token"):
        (folder / name).write_text(secrets.token_hex(32))
        (folder / name).chmod(0o600)
        if os.geteuid() == 0:
            os.chown(folder / name, USER, USER)
        else:
            subprocess.run(["sudo", "chown", f"{USER}:{USER}", folder / name], check=True)


@contextmanager
def project(keep: bool) -> Iterator[Compose]:
    """A project of its own, which is taken away at the end."""
    with tempfile.TemporaryDirectory(prefix="glasstream-containers-") as name:
        folder = Path(name)
        copied(folder)
        compose = Compose(folder, f"glasstream-{secrets.token_hex(3)}")
        try:
            yield compose
        except Failure:
            print(compose("logs", "--tail", "15", "--no-color", check=False))
            raise
        finally:
            if not keep:
                compose("--profile=demo", "down", "--volumes", "--remove-orphans", "--timeout", "40", check=False)


def everything_starts(compose: Compose) -> None:
    """Start everything; all that has a health check gets healthy. Prints how long each took."""
    begun = time.monotonic()
    compose("up", "--detach", "--no-build")
    say(f"`docker compose up` returned after {time.monotonic() - begun:.0f} s")
    wanted = {*WORKERS, "kafka", "page"}
    wait("every service is healthy", lambda: {service(one) for one in compose.states() if healthy(one)} >= wanted)
    say(f"every service is healthy after {time.monotonic() - begun:.0f} s; each after its own start:")
    for state in compose.states():
        well = [look["Start"] for look in state["State"].get("Health", {}).get("Log", ()) if look["ExitCode"] == 0]
        if well:
            seconds = moment(well[0]) - moment(state["State"]["StartedAt"])
            say(f"healthy within {seconds:5.1f} s: {state['Name'].strip('/')}")


def moment(text: str) -> float:
    """Seconds of a time as the engine writes it, with nine decimals, in its own zone."""
    return datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text)).timestamp()


def memory(compose: Compose) -> None:
    names = compose("ps", "--quiet").split()
    stats = subprocess.run(
        ["docker", "stats", "--no-stream", "--format", "{{.Name}} {{.MemUsage}} {{.PIDs}} pids", *names],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    for line in sorted(stats.stdout.splitlines()):
        say(f"memory: {line}")


def restarts(compose: Compose, name: str) -> int:
    return sum(state["RestartCount"] for state in compose.states() if service(state) == name)


def records(compose: Compose, *topics: str) -> dict[str, list[bytes]]:
    """Every committed record of topics, sorted."""
    said = compose("exec", "-T", "page", "/opt/glasstream/bin/python", "-", *topics, given=READ)
    return decoded(said)


def decoded(said: str) -> dict[str, list[bytes]]:
    """Return what `READ` has printed, sorted."""
    found: dict[str, list[str]] = json.loads(said)
    return {topic: sorted(base64.b64decode(one) for one in some) for topic, some in found.items()}


def predicted(compose: Compose) -> int:
    """How many events are predicted, as committed."""
    return len(records(compose, "predictions")["predictions"])


def in_mid_stream(what: str, done: int, rows: int) -> None:
    """Say how far the stream is when something happens; it must have begun, and not have ended."""
    say(f"{what}; {done} of {rows} events are predicted")
    if not 0 < done < rows:
        raise Failure(f"{what}: expected more than 0 and fewer than {rows} predicted events, got {done}")


def expected(compose: Compose, rows: int) -> dict[str, list[bytes]]:
    """Return what the same image publishes without Kafka."""
    script = EXPECTED.format(rows)
    packed = compose.bytes_of("run", "--rm", "--no-deps", "-T", "--entrypoint", "sh", "demo", "-c", script)
    with tarfile.open(fileobj=BytesIO(packed)) as archive:
        return lines_of(archive)


def lines_of(archive: tarfile.TarFile) -> dict[str, list[bytes]]:
    """Return the sorted lines of the files of `--out`."""
    found = {}
    for member in archive:
        file = archive.extractfile(member)
        if file is not None:
            found[Path(member.name).name.removesuffix(".jsonl")] = sorted(file.read().splitlines())
    return found


def compiled(compose: Compose) -> dict[str, str]:
    """By stage: the kernels in its cache that did not come with the image."""
    script = (
        'cd "$NUMBA_CACHE_DIR" && find . -name "*.nbc" | sort > /tmp/now && '
        'cd "$KERNELS" && find . -name "*.nbc" | sort | comm -13 - /tmp/now'
    )
    return {name: compose("exec", "-T", name, "sh", "-c", script).strip() for name in WORKERS}


def same(name: str, found: list[bytes], wanted: list[bytes]) -> None:
    if found == wanted:
        say(f"{name}: {len(found)} records, byte-identical to `--broker none`")
        return
    more, less = [one for one in found if one not in set(wanted)], [one for one in wanted if one not in set(found)]
    raise Failure(
        f"{name}: expected {len(wanted)} records, got {len(found)}; {len(less)} lack, {len(more)} are others\n"
        f"lacks {less[:1]}\nhas {more[:1]}"
    )


def expect_small(image: str) -> None:
    """Report the size of the image by layer, and fail if it is larger than it may become."""
    history = ["docker", "history", "--no-trunc", "--human=false", "--format", "{{.Size}} {{.CreatedBy}}", image]
    lines = subprocess.run(history, capture_output=True, text=True, check=True).stdout.splitlines()
    layers = [(int(size), step) for size, _, step in (line.partition(" ") for line in lines)]
    total = sum(size for size, _ in layers)
    large = ", ".join(f"{step.split()[1] if step else 'base'} {size / 1e6:.0f}" for size, step in layers if size > 1e6)
    say(f"the image has {total / 1e6:.0f} MB: {large}")
    if total > LARGEST:
        raise Failure(f"expected an image of at most {LARGEST / 1e6:.0f} MB, got {total / 1e6:.0f} MB")


def check(compose: Compose, rows: int) -> None:
    say("building the image")
    begun = time.monotonic()
    compose("build")
    say(f"built in {time.monotonic() - begun:.0f} s")
    expect_small(compose.image)
    wanted = expected(compose, rows)
    say("without Kafka: " + ", ".join(f"{name} {len(some)}" for name, some in sorted(wanted.items())))
    everything_starts(compose)
    memory(compose)
    doctor = compose("exec", "-T", "learner", "glasstream", "doctor", check=False)
    key = [line for line in doctor.splitlines() if "hmac key" in line]
    say(f"doctor: {' / '.join(' '.join(line.split()) for line in key)}")
    if not key or any(word in line for line in key for word in ("fail", "warn")):
        raise Failure(f"doctor does not accept the key file\n{doctor}")
    cost = compose("exec", "-T", "learner", "bash", "-c", "time ready 8080; times")
    say(f"a health check: {' '.join(cost.split())}")

    say("producing, compressed with snappy and with zstd")
    produce = ["--profile=demo", "run", "--rm", "-T"]
    with_codec = lambda codec: ["-e", f"GLASSTREAM_KAFKA_COMPRESSION_TYPE={codec}"]  # noqa: E731
    compose(*produce, *with_codec("snappy"), "demo", "produce", "--rows", "300", "--stream", "other")
    begun = time.monotonic()
    tail = compose("exec", "-T", "page", "glasstream", "tail", "importance", "--from-start", "--max", "1").strip()
    say(f"first explanation, read by `glasstream tail` within {time.monotonic() - begun:.0f} s of the last event:")
    print(f"{tail[:300]} ...")
    compose("pause", "learner")  # so that all of what follows happens while there is much to learn
    compose(*produce, *with_codec("zstd"), "demo", "produce", "--rows", str(rows))
    learner = compose("ps", "--quiet", "learner").strip()
    subprocess.run(["docker", "update", "--cpus", "0.1", learner], check=True, capture_output=True)
    compose("unpause", "learner")
    wait("something is learned", lambda: predicted(compose) > 0)
    in_mid_stream("the learner is killed and explainers are added", predicted(compose), rows)
    before = restarts(compose, "learner")
    # As the kernel would for want of memory; `docker kill` would tell the engine not to restart it.
    compose("exec", "-T", "learner", "bash", "-c", "kill -9 -1", check=False)
    wait("the engine restarts the learner", lambda: restarts(compose, "learner") > before)
    subprocess.run(["docker", "update", "--cpus", "1", learner], check=True, capture_output=True)
    compose("up", "--detach", "--no-build", "--no-recreate", "--scale", "explainer=4")
    say(f"the broker is restarted; {predicted(compose)} of {rows} events are predicted")
    compose("restart", "kafka")
    took = wait(
        "all services, four explainers among them, are healthy",
        lambda: (
            [service(one) for one in compose.states() if healthy(one)].count("explainer") == 4
            and all(healthy(one) for one in compose.states() if service(one) != "topics")
        ),
    )
    say(f"everything is healthy again after {took:.0f} s")

    topics = [name for name in TOPICS if name in wanted]
    wait(
        "everything is published",
        lambda: all(len(some) >= len(wanted[name]) for name, some in records(compose, *topics).items()),
    )
    for name, some in records(compose, *topics).items():
        same(name, some, wanted[name])
    memory(compose)
    for name, new in compiled(compose).items():
        if new:
            raise Failure(f"{name}: these kernels were compiled in the container, not in the image\n{new}")
    say("no stage has compiled a kernel that did not come with the image")

    begun = time.monotonic()
    compose("stop")
    codes = {state["Name"].strip("/"): state["State"]["ExitCode"] for state in compose.states()}
    say(f"stopped in {time.monotonic() - begun:.0f} s; exit codes {codes}")
    ends = {0, 143}  # Kafka's Java ends with 143 when it is told to
    if any(code not in ({0} if "kafka" not in name else ends) for name, code in codes.items()):
        raise Failure(f"expected every container to end with 0, got {codes}")


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description="The image and the compose file on a real engine.")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--keep", action="store_true", help="leave the containers as they are at the end")
    asked = parser.parse_args()
    lacking = engine()
    if lacking is not None:
        print(f"no container engine, nothing was run: {lacking}", file=sys.stderr)
        return NO_ENGINE
    try:
        with project(asked.keep) as compose:
            check(compose, asked.rows)
    except Failure as failure:
        print(f"failed: {failure}", file=sys.stderr)
        return 1
    say("all is as it should be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
