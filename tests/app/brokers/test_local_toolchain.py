"""Messages on a machine that lacks something for a local Kafka, and how the jars are fetched.

Programs are found through PATH, so PATH decides what a machine lacks. No Kafka is started.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from glasstream.app.brokers.local import jars, local_kafka, toolchain
from glasstream.app.configuration import load
from glasstream.base.errors import BrokerError

DEADLINE_S = 30.0


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder that is all of PATH, empty at first; no JAVA_HOME and nothing fetched."""
    programs = tmp_path / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    return programs


def program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def refusal() -> str:
    with pytest.raises(BrokerError) as raised, local_kafka():
        pass
    return str(raised.value)


def test_without_java_it_says_what_to_install(bare: Path) -> None:
    said = refusal()
    assert "found no `java`" in said
    assert "apt-get install openjdk-17-jre-headless" in said
    assert "--broker embedded" in said


def test_an_old_java_is_refused(bare: Path) -> None:
    program(bare / "java", """echo 'openjdk version "11.0.2" 2019-01-15' >&2""")
    assert "is: 11" in refusal()


def test_a_java_that_prints_no_version_is_refused(bare: Path) -> None:
    program(bare / "java", "echo broken >&2; exit 3")
    assert "is: broken" in refusal()


def test_java_home_goes_before_path(bare: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program(bare / "java", """echo 'openjdk version "11.0.2"' >&2""")
    home = tmp_path / "jdk"
    (home / "bin").mkdir(parents=True)
    program(home / "bin" / "java", """echo 'openjdk version "21.0.1"' >&2""")
    monkeypatch.setenv("JAVA_HOME", str(home))
    assert toolchain.java() == home / "bin" / "java"


def test_the_version_of_kafka_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    bundled = jars.cache_folder()
    monkeypatch.setenv("GLASSTREAM_LOCAL_KAFKA", "3.9.1")
    assert load(environment=os.environ).kafka == {}, "no setting of the clients"
    assert (jars.kafka_version(), jars.pom().count("3.9.1")) == ("3.9.1", 1)
    assert jars.cache_folder().name.startswith("kafka-3.9.1-") and jars.cache_folder() != bundled
    monkeypatch.setenv("GLASSTREAM_LOCAL_KAFKA", "3.9</kafka.version>")
    with pytest.raises(BrokerError, match=r"expected a version of Kafka such as 3\.9\.1, got '3\.9</"):
        jars.pom()


def test_without_maven_it_says_what_to_install(bare: Path) -> None:
    program(bare / "java", """echo 'openjdk version "17.0.1"' >&2""")
    assert "apt-get install maven" in refusal()


def test_a_failed_fetch_shows_what_maven_said_and_leaves_nothing(bare: Path) -> None:
    program(bare / "java", """echo 'openjdk version "17.0.1"' >&2""")
    program(bare / "mvn", "echo '[ERROR] no route to the registry'; exit 1")
    said = refusal()
    assert "exit code 1" in said
    assert "no route to the registry" in said
    assert [path.suffix for path in jars.cache_folder().parent.iterdir()] == [".lock"]


def test_a_docker_engine_serves_where_java_is_missing(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine here is one that says it answers and then does not: no image is pulled by this test."""
    program(bare / "docker", "echo 28.0")
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    assert "the Docker engine cannot start apache/kafka:4.1.1" in refusal()


def test_a_docker_engine_without_its_package_names_the_extra(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(bare / "docker", "echo 28.0")
    monkeypatch.setitem(sys.modules, "testcontainers.core.container", None)
    assert "pip install 'glasstream[container]'" in refusal()


def test_a_docker_client_without_an_engine_does_not_count(bare: Path) -> None:
    program(bare / "docker", "echo; echo no daemon >&2; exit 1")
    assert "found no `java`" in refusal()


def test_a_container_keeps_no_data(bare: Path, tmp_path: Path) -> None:
    program(bare / "docker", "echo 28.0")
    with pytest.raises(BrokerError, match="or leave --data out"), local_kafka(tmp_path / "data"):
        pass


FETCH = "from glasstream.app.brokers.local import jars; print(jars.fetch(lambda text: print('fetching')))"


def test_two_processes_fetch_once(bare: Path) -> None:
    folder = jars.cache_folder()
    ready = bare.parent / "fetches"
    program(
        bare / "mvn",
        f"""echo once >> '{ready}'
        for argument in "$@"; do case "$argument" in -DoutputDirectory=*) folder="${{argument#*=}}";; esac; done
        /bin/mkdir "$folder" && : > "$folder/kafka_2.13-0.jar" """,
    )
    command = [sys.executable, "-c", FETCH]
    runs = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    printed = [run.communicate(timeout=DEADLINE_S)[0].splitlines() for run in runs]
    assert all(lines[-1] == str(folder) for lines in printed)
    assert ready.read_text() == "once\n"
    assert [path.name for path in folder.iterdir()] == ["kafka_2.13-0.jar"]
