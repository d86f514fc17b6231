"""The pods of the manifests on a Docker engine, which stands in for a kubelet: `./ops/test --pods`.

Each container runs with image, command, environment, user, limits, mounts and probes of `ops/kubernetes`, beside the
Kafka of docker-compose.yml. While the bundled stream is learned, a pod is killed, a node is drained, all stages are
updated one pod at a time, and the key is changed as security.md says. Then the public topics must be those of
`--broker none`. There is no scheduler, no network policy and no volume of Kubernetes.
"""

import argparse
import os
import secrets
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import yaml

from tests.support.containers import (
    EXPECTED,
    NO_ENGINE,
    READ,
    ROOT,
    TOPICS,
    USER,
    Failure,
    copied,
    decoded,
    engine,
    in_mid_stream,
    lines_of,
    same,
    say,
    wait,
)

STAGES = ("learner", "explainer", "aggregator", "novelty", "labels")
CHECKPOINT_SECONDS = 1
PROBE = "exec 3<>/dev/tcp/{}/{} && printf 'GET {} HTTP/1.0\\r\\n\\r\\n' >&3 && timeout {} head -n 1 <&3"


def docker(*words: str, given: str | None = None, check: bool = True) -> str:
    """Run a command of the engine, and return what it printed."""
    done = subprocess.run(["docker", *words], input=given, capture_output=True, text=True, check=False)
    if check and done.returncode:
        raise Failure(f"docker {' '.join(words)[:300]}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


def documents() -> Iterator[dict[str, Any]]:
    """Yield what the manifests declare."""
    for name in ("common", *STAGES):
        yield from yaml.safe_load_all((ROOT / "ops" / "kubernetes" / f"{name}.yaml").read_text(encoding="utf-8"))


def bytes_of(quantity: str) -> int:
    """Return a quantity of memory in bytes."""
    return int(quantity[:-2]) * {"Mi": 2**20, "Gi": 2**30}[quantity[-2:]]


def cpus_of(quantity: str) -> float:
    """Return a quantity of processors as a number."""
    return int(quantity[:-1]) / 1000 if quantity.endswith("m") else float(quantity)


class Pods:
    """Pods of the manifests in one network."""

    def __init__(self, network: str, folder: Path) -> None:
        self.network, self._folder = network, folder
        declared = list(documents())
        data: dict[str, str] = next(one["data"] for one in declared if one["kind"] == "ConfigMap")
        # The Kafka has one node, and state is sealed with another key soon.
        of_test = {"GLASSTREAM_TOPICS_REPLICATION": "1", "GLASSTREAM_CHECKPOINT_SECONDS": str(CHECKPOINT_SECONDS)}
        self.settings = {**data, **of_test}
        self._sets = {one["metadata"]["name"]: one for one in declared if one["kind"] == "StatefulSet"}
        least = {
            one["spec"]["scaleTargetRef"]["name"]: one["spec"]["minReplicas"]
            for one in declared
            if one["kind"] == "HorizontalPodAutoscaler"
        }
        counts = {name: some["spec"].get("replicas") or least[name] for name, some in self._sets.items()}
        self.names = [f"{name}-{number}" for name, count in counts.items() for number in range(count)]

    def _spec(self, pod: str) -> dict[str, Any]:
        spec: dict[str, Any] = self._sets[pod.rpartition("-")[0]]["spec"]["template"]["spec"]
        return spec

    def _words(self, pod: str, container: dict[str, Any]) -> list[str]:
        """Return how the engine runs a container of a pod, as a kubelet would."""
        spec, limits = self._spec(pod), container["resources"]["limits"]
        user = spec["securityContext"]
        secure = container["securityContext"]
        if not (spec["securityContext"]["runAsNonRoot"] and secure["readOnlyRootFilesystem"]):
            raise Failure(f"{pod}: expected a user that is not root, and a file system that is read-only")
        words = ["--network", self.network, "--hostname", pod, "--read-only", "--cap-drop", "ALL"]
        words += ["--user", f"{user['runAsUser']}:{user['runAsGroup']}", "--security-opt", "no-new-privileges"]
        memory = str(bytes_of(limits["memory"]))
        words += ["--cpus", str(cpus_of(str(limits["cpu"]))), "--memory", memory, "--memory-swap", memory]
        own = {one["name"]: one.get("value", pod) for one in container.get("env", ())}  # else the name of the pod
        for name, value in {**self.settings, **own}.items():
            words += ["--env", f"{name}={value}"]
        volumes = {one["name"]: one for one in spec["volumes"]}
        for mount in container["volumeMounts"]:
            volume = volumes[mount["name"]]
            if "emptyDir" in volume:
                size = bytes_of(volume["emptyDir"]["sizeLimit"])
                words += ["--tmpfs", f"{mount['mountPath']}:size={size},uid={USER},gid={USER},exec"]
            else:
                words += ["--volume", f"{self._folder}:{mount['mountPath']}:ro"]
        return [*words, container["image"], *container["args"]]

    def start(self, pod: str) -> None:
        """Run the init containers to their end, and start the container."""
        spec = self._spec(pod)
        for first in spec.get("initContainers", ()):
            words = ["docker", "run", "--rm", *self._words(pod, first)]
            run = partial(subprocess.run, words, capture_output=True, check=False)
            wait(
                f"an init container of {pod} succeeds; until then it is started again",
                lambda run=run: not run().returncode,
            )
        docker("run", "--detach", "--name", pod, *self._words(pod, spec["containers"][0]))

    def probe(self, pod: str, kind: str) -> bool:
        """Ask a probe from another container, as the kubelet does from the node."""
        container = self._spec(pod)["containers"][0]
        probe = container[f"{kind}Probe"]
        port = next(one["containerPort"] for one in container["ports"] if one["name"] == probe["httpGet"]["port"])
        asked = PROBE.format(pod, port, probe["httpGet"]["path"], probe.get("timeoutSeconds", 1))
        return " 200 " in docker("exec", "kafka", "bash", "-c", asked, check=False)

    def ready(self, *pods: str) -> float:
        """Wait until pods are ready. The startup probe must succeed in the time that it is given."""
        begun = time.monotonic()
        for pod in pods:
            startup = self._spec(pod)["containers"][0]["startupProbe"]
            wait(f"{pod} has started", lambda pod=pod: self.probe(pod, "startup"))
            allowed = startup["periodSeconds"] * startup["failureThreshold"]
            if time.monotonic() - begun > allowed:
                raise Failure(f"{pod}: the startup probe failed for {allowed} s; a kubelet would have killed it")
            wait(f"{pod} is ready", lambda pod=pod: self.probe(pod, "readiness"))
        return time.monotonic() - begun

    def end(self, *pods: str) -> None:
        """Delete pods at once: SIGTERM, then the time of grace. Each must end with exit code 0 within it."""
        for pod in pods:
            docker("kill", "--signal", "TERM", pod)
        for pod in pods:
            grace = self._spec(pod)["terminationGracePeriodSeconds"]
            waiting = ["docker", "wait", pod]
            try:
                done = subprocess.run(waiting, capture_output=True, text=True, check=False, timeout=grace)
            except subprocess.TimeoutExpired:
                raise Failure(f"{pod}: runs {grace} s after SIGTERM; a kubelet would have killed it") from None
            code = done.stdout.strip()
            docker("rm", pod)
            if code != "0":
                raise Failure(f"{pod}: expected exit code 0 within {grace} s of SIGTERM, got {code}")

    def replace(self, *pods: str) -> float:
        """Delete pods, start them again, and wait until they are ready."""
        self.end(*pods)
        for pod in pods:
            self.start(pod)
        return self.ready(*pods)

    def kill(self, pod: str) -> float:
        """Kill a pod, and start its successor of the same name."""
        docker("rm", "--force", pod)
        self.start(pod)
        return self.ready(pod)

    def set_keys(self, *keys: str) -> None:
        """Change the secret with the keys."""
        file = self._folder / "hmac_key"
        file.write_text(",".join(keys), encoding="utf-8")
        file.chmod(0o440)
        os.chown(file, 0, USER)  # as `fsGroup` does


@contextmanager
def kafka(network: str) -> Iterator[None]:
    """The Kafka of docker-compose.yml in a network."""
    service = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))["services"]["kafka"]
    words = [word for name, value in service["environment"].items() for word in ("--env", f"{name}={value}")]
    image = os.environ.get("KAFKA_IMAGE", "apache/kafka:4.1.1")
    docker("run", "--detach", "--name", "kafka", "--hostname", "kafka", "--network", network, *words, image)
    try:
        yield
    finally:
        docker("rm", "--force", "--volumes", "kafka", check=False)


PRODUCE = """
import signal, sys, time
from confluent_kafka import Producer
from glasstream.events.sources.bundled import BundledStream
from glasstream.events.sources.messages import pack
from glasstream_topics import events

producer = Producer({"bootstrap.servers": "kafka:9092", "partitioner": "murmur2_random", "linger.ms": 5})
begun, rows, rate = time.monotonic(), *map(int, sys.argv[1:])
hurry = []
signal.signal(signal.SIGUSR1, lambda *_: hurry.append(True))
for number, (value, _) in enumerate(pack(BundledStream(1, rows).events(), 1, 900_000)):
    producer.produce("glasstream.events", key=events.key("agrawal"), value=value)
    producer.poll(0.0 if hurry else max(0.0, begun + number / rate - time.monotonic()))
producer.produce("glasstream.events", key=events.key("agrawal"), value=events.FLUSH)
producer.flush()
"""
"""Run in a container: produces the bundled stream at a rate, from SIGUSR1 on at once, and the flush mark."""


def check(rows: int, rate: int) -> None:
    """Run the pods through what happens to those of a cluster, and compare what they publish."""
    image = next(one for one in documents() if one["kind"] == "StatefulSet")["spec"]["template"]["spec"]
    name = image["containers"][0]["image"]
    say("building the image")
    with tempfile.TemporaryDirectory() as folder:
        copied(Path(folder))
        docker("compose", "--project-directory", folder, "build")
    packed = subprocess.run(
        ["docker", "run", "--rm", "--entrypoint", "sh", name, "-c", EXPECTED.format(rows)],
        check=True,
        capture_output=True,
    )
    with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
        wanted = lines_of(archive)
    network = f"glasstream-{secrets.token_hex(3)}"
    docker("network", "create", network)
    with tempfile.TemporaryDirectory(prefix="glasstream-pods-") as folder:
        Path(folder).chmod(0o755)
        pods = Pods(network, Path(folder))
        try:
            with kafka(network):
                live(pods, name, rows, rate)
                compare(pods, wanted)
                pods.end(*pods.names)
                say("every pod ends with exit code 0 when it is deleted")
        finally:
            docker("rm", "--force", "producer", *pods.names, check=False)
            docker("network", "rm", network, check=False)


def live(pods: Pods, image: str, rows: int, rate: int) -> None:
    """Start the pods, produce a stream, and let things happen to them meanwhile."""
    keys = [secrets.token_hex(32) for _ in range(2)]
    pods.set_keys(keys[0])
    for pod in pods.names:
        pods.start(pod)
    say(f"{len(pods.names)} pods of the manifests are ready {pods.ready(*pods.names):.0f} s after the last one's start")
    python = ["--entrypoint", "/opt/glasstream/bin/python", "--network", pods.network]
    docker("run", "--detach", "--name", "producer", *python, image, "-c", PRODUCE, str(rows), str(rate))

    def meanwhile(what: str, act: Callable[[], float]) -> None:
        wait("something is learned", lambda: predicted(pods) > 0)
        in_mid_stream(what, predicted(pods), rows)
        say(f"    ready again after {act():.0f} s")

    sealed = [pod for pod in pods.names if not pod.startswith("labels")]
    node = [f"{stage}-0" for stage in ("learner", "explainer", "aggregator")]
    meanwhile("a killed pod: learner-0", lambda: pods.kill("learner-0"))
    meanwhile(f"a drained node: {', '.join(node)}", lambda: pods.replace(*node))
    pods.settings["GLASSTREAM_TRANSACTION_SECONDS"] = "0.1"
    updated = list(reversed(pods.names))
    meanwhile("a rolling update, one pod at a time", lambda: sum(pods.replace(pod) for pod in updated))
    for step in ((keys[0], keys[1]), (keys[1], keys[0]), (keys[1],)):
        pods.set_keys(*step)
        meanwhile(f"a changed secret: {len(step)} keys", lambda: pods.replace(*sealed))
        time.sleep(10 * CHECKPOINT_SECONDS)  # after which security.md says that the new key seals all state
    docker("kill", "--signal", "USR1", "producer")


def found(*topics: str) -> dict[str, list[bytes]]:
    """Return every committed record of topics, sorted."""
    python = ["exec", "--interactive", "learner-0", "/opt/glasstream/bin/python"]
    return decoded(docker(*python, "-", *topics, given=READ))


def predicted(pods: Pods) -> int:
    """How many events are predicted, as committed."""
    return len(found("predictions")["predictions"])


def compare(pods: Pods, wanted: dict[str, list[bytes]]) -> None:
    """Wait until everything is published; it must be what the same image gives without Kafka."""
    topics = [name for name in TOPICS if name in wanted]
    wait(
        "everything is published", lambda: all(len(some) >= len(wanted[name]) for name, some in found(*topics).items())
    )
    for name, some in found(*topics).items():
        same(name, some, wanted[name])


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description="The pods of the manifests on a Docker engine.")
    parser.add_argument("--rows", type=int, default=120_000)
    parser.add_argument("--rate", type=int, default=300, help="events in a second")
    asked = parser.parse_args()
    lacking = engine()
    if lacking is not None:
        print(f"no container engine, nothing was run: {lacking}", file=sys.stderr)
        return NO_ENGINE
    try:
        check(asked.rows, asked.rate)
    except Failure as failure:
        print(f"failed: {failure}", file=sys.stderr)
        return 1
    say("all is as it should be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
