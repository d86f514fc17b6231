"""Messages of ops/demo and ops/test on a machine that lacks something. PATH decides what it lacks."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout with nothing but the scripts and the project file, and beside it `bin`, which will be PATH."""
    folder = tmp_path / "checkout"
    shutil.copytree(ROOT / "ops", folder / "ops")
    for name in ("pyproject.toml", "pipeline/glasstream_lab/pyproject.toml"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("bash", "dirname", "cat", "env"):
        (programs / name).symlink_to(str(shutil.which(name)))
    return folder


def run(checkout: Path, script: str, *arguments: str) -> tuple[int, str]:
    """Exit code and standard error."""
    environment = {"PATH": str(checkout.parent / "bin"), "HOME": os.environ.get("HOME", "/")}
    command = [str(checkout / "ops" / script), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stderr


def program(checkout: Path, name: str, script: str) -> None:
    path = checkout.parent / "bin" / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.mark.parametrize("script", ["demo", "test"])
def test_an_old_python_is_refused(checkout: Path, script: str) -> None:
    program(checkout, "python3", 'case "$1" in --version) echo "Python 3.9.2";; *) exit 1;; esac')
    code, said = run(checkout, script)
    assert code == 1
    assert "expected Python 3.11 or newer" in said
    assert "found Python 3.9.2" in said


def test_another_python_that_is_asked_for_is_found_or_named(checkout: Path) -> None:
    for given, said in (("3.13", "expected Python 3.13 as python3.13"), ("three", "expected a version such as 3.13")):
        code, error = run(checkout, "test", "--python", given)
        assert code in (1, 2) and said in error
    assert "got ''" in run(checkout, "test", "--python")[1]
    for name, version in (("python3", "3.11"), ("python3.13", "3.13")):
        ensurepip = 'case "$*" in *ensurepip*) exit 1;; -) echo stamp; exit;; esac'
        program(checkout, name, f'{ensurepip}\ncase "$*" in *"%d.%d"*) [ "$3" = {version} ];; esac')
    assert f"venv module in {checkout.parent / 'bin' / 'python3.13'}" in run(checkout, "test", "--python", "3.13")[1]
    assert "expected Python 3.12 as python3.12" in run(checkout, "test", "--python=3.12")[1]


@pytest.mark.parametrize("script", ["demo", "test"])
def test_no_python_is_said(checkout: Path, script: str) -> None:
    code, said = run(checkout, script)
    assert code == 1
    assert "found none" in said


def test_a_python_without_venv_names_the_package(checkout: Path) -> None:
    program(checkout, "python3", 'case "$*" in *ensurepip*) exit 1;; -) echo stamp;; esac')
    code, said = run(checkout, "demo")
    assert code == 1
    assert "apt-get install python3-venv" in said
    assert not (checkout / ".venv-demo").exists()


@pytest.mark.parametrize("script", ["check", "site", "test"])
def test_help_needs_no_installation(checkout: Path, script: str) -> None:
    assert run(checkout, script, "--help") == (0, "")
    assert not [*checkout.glob(".venv-*")]


def test_the_environment_is_made_again_only_when_the_project_file_changes(checkout: Path) -> None:
    """With a Python that only pretends to install: what is counted is how often it is asked to."""
    made = checkout.parent / "made"
    program(
        checkout,
        "python3",
        f"""case "$*" in
            "-m venv --clear "*)
                echo again >> '{made}'
                /bin/mkdir -p "$4/bin"
                printf '#!/bin/sh\\n' > "$4/bin/python"
                printf '#!/bin/sh\\necho "ran $*" >&2\\n' > "$4/bin/glasstream"
                /bin/chmod +x "$4/bin/python" "$4/bin/glasstream";;
            *) exec '{sys.executable}' "$@";;
        esac""",
    )
    for _ in range(2):
        code, said = run(checkout, "demo", "--rows", "7")
        assert (code, said.splitlines()[-1]) == (0, "ran run --rows 7")
    assert made.read_text().splitlines() == ["again"]
    with (checkout / "pyproject.toml").open("a") as file:
        file.write("# changed\n")
    assert run(checkout, "demo")[0] == 0
    assert made.read_text().splitlines() == ["again", "again"]


def test_a_missing_browser_is_said_and_in_ci_refused(checkout: Path) -> None:
    code, said = run(checkout, "test")
    assert code == 1 and "apt-get install chromium" in said and "found none" in said  # it went on, to the Python
    program(checkout, "chromium", "")
    assert "apt-get install chromium" not in run(checkout, "test")[1]
    (checkout.parent / "bin" / "chromium").unlink()
    script = checkout / "ops" / "test"
    script.write_text(script.read_text().replace("set -euo pipefail", "set -euo pipefail\nexport CI=true", 1))
    code, said = run(checkout, "test")
    assert code == 1 and "apt-get install chromium" in said and "found none" not in said
