"""The release: a source distribution, the wheel that is built from it alone, and what the wheel installs."""

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from packaging.metadata import Metadata
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.archives import extract

ROOT = Path(__file__).resolve().parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
VERSION = PROJECT["project"]["version"]
EXTRAS: dict[str, list[str]] = PROJECT["project"]["optional-dependencies"]
DEPENDENCIES = Path(sysconfig.get_path("purelib"))
SOURCES = (ROOT / "pipeline", ROOT / "topics")
PACKAGES = {"glasstream", "glasstream_topics"}
FOLDERS = ("pipeline", "topics", "tests", "ops", "examples")
TOP = ("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "README.md", "docker-compose.yml", "pyproject.toml")
RUN = ("run", "--rows", "400", "--explain", "ipfi,isage,ipdp", "--out")


def files(*folders: str, root: Path = ROOT) -> dict[str, bytes]:
    """Return the files in some folders, without those that Python, numba and npm leave there."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for folder in folders
        for path in (root / folder).rglob("*")
        if path.is_file() and not {"__pycache__", "node_modules"} & set(path.parts)
    }


def done(*command: str | Path, cwd: Path, env: Mapping[str, str] | None = None) -> str:
    """Standard output of a command that succeeds."""
    ran = subprocess.run([*map(str, command)], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


@dataclass(frozen=True)
class Release:
    """The files that would be published, and the first of them unpacked."""

    sdist: Path
    unpacked: Path
    wheel: Path


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Release:
    folder = tmp_path_factory.mktemp("release")
    hatchling = (sys.executable, "-m", "hatchling", "build", "--directory", folder)
    done(*hatchling, "--target", "sdist", cwd=ROOT)
    sdist = folder / f"glasstream-{VERSION}.tar.gz"
    with tarfile.open(sdist) as archive:
        extract(archive, folder)
    unpacked = folder / f"glasstream-{VERSION}"
    done(*hatchling, "--target", "wheel", cwd=unpacked)
    return Release(sdist, unpacked, folder / f"glasstream-{VERSION}-py3-none-any.whl")


def test_the_source_distribution_holds_the_project_and_nothing_else(release: Release) -> None:
    with tarfile.open(release.sdist) as archive:
        found = {member.name.partition("/")[2]: member.mode for member in archive.getmembers()}
    expected = files(*FOLDERS) | {name: (ROOT / name).read_bytes() for name in TOP}
    assert set(found) == {*expected, "PKG-INFO", ".gitignore"}
    assert {name: (release.unpacked / name).read_bytes() for name in expected} == expected
    scripts = [name for name in expected if (ROOT / name).stat().st_mode & 0o100]
    assert "ops/test" in scripts and all(found[name] & 0o100 for name in scripts)


def test_the_wheel_holds_the_packages_with_their_data_and_nothing_else(release: Release) -> None:
    with ZipFile(release.wheel) as wheel:
        found = {name: wheel.read(name) for name in wheel.namelist()}
    about = {name for name in found if name.startswith(f"glasstream-{VERSION}.dist-info/")}
    assert {name.partition("/")[0] for name in found if name not in about} == PACKAGES
    expected = files("glasstream", root=SOURCES[0]) | files("glasstream_topics", root=SOURCES[1])
    assert {name: found[name] for name in found if name not in about} == expected
    assert {name.partition("/")[2] for name in about} == {
        "METADATA",
        "RECORD",
        "WHEEL",
        "entry_points.txt",
        *(f"licenses/{name}" for name in PROJECT["project"]["license-files"]),
    }
    assert not [name for name in found if Path(name).name.startswith(("test_", "conftest"))]


def test_the_contract_is_a_wheel_of_its_own(tmp_path: Path) -> None:
    own = tomllib.loads((SOURCES[1] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert own["version"] == VERSION
    assert set(own["dependencies"]) <= set(PROJECT["project"]["dependencies"])
    done(sys.executable, "-m", "hatchling", "build", "--directory", tmp_path, "--target", "wheel", cwd=SOURCES[1])
    packages = tmp_path / "packages"
    with ZipFile(tmp_path / f"glasstream_topics-{VERSION}-py3-none-any.whl") as wheel:
        wheel.extractall(packages)
    assert files("glasstream_topics", root=packages) == files("glasstream_topics", root=SOURCES[1])
    assert {path.name.partition("-")[0] for path in packages.iterdir()} == {"glasstream_topics"}
    imports = f"import sys; sys.path[:0] = [{str(packages)!r}]; import glasstream_topics, glasstream_topics.admin;"
    said = done(
        sys.executable, "-c", imports + "print(glasstream_topics.__file__, 'glasstream' in sys.modules)", cwd=tmp_path
    )
    assert said.split() == [str(packages / "glasstream_topics" / "__init__.py"), "False"]


def test_the_laboratory_is_a_wheel_of_its_own_that_adds_its_commands(release: Release, tmp_path: Path) -> None:
    folder = SOURCES[0] / "glasstream_lab"
    own = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert own["version"] == VERSION and own["dependencies"][0] == f"glasstream=={VERSION}"
    done(sys.executable, "-m", "hatchling", "build", "--directory", tmp_path, "--target", "wheel", cwd=folder)
    wheel = tmp_path / f"glasstream_lab-{VERSION}-py3-none-any.whl"
    with ZipFile(wheel) as opened:
        found = {name for name in opened.namelist() if not name.startswith("glasstream_lab-")}
    assert found == files("glasstream_lab", root=SOURCES[0]).keys() - {"glasstream_lab/pyproject.toml"}
    packages = install(release.wheel, tmp_path / "installed")
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    program = tmp_path / "installed" / "bin" / "glasstream"
    pip = (sys.executable, "-m", "pip", "--python", program.with_name("python"), "--disable-pip-version-check")
    done(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=tmp_path)
    assert "ipfi-laws" in done(program, "paper", "list", cwd=tmp_path, env=environment)
    shutil.rmtree(packages / "glasstream_lab")
    assert "Cannot be loaded" in done(program, "--help", cwd=tmp_path, env=environment)
    ran = subprocess.run([program, "paper", "list"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert ran.returncode == 2 and "install the package again" in ran.stderr


def test_the_metadata_are_complete(release: Release) -> None:
    with ZipFile(release.wheel) as wheel:
        text = wheel.read(f"glasstream-{VERSION}.dist-info/METADATA")
    said = Metadata.from_email(text, validate=True)
    assert (said.name, str(said.version), said.license_expression) == ("glasstream", VERSION, "Apache-2.0")
    assert said.summary and said.description and said.description_content_type == "text/markdown"
    assert said.license_files == PROJECT["project"]["license-files"]
    licences = {str(path.relative_to(ROOT)) for path in (ROOT / "pipeline").rglob("LICENSE*")} | {"LICENSE"}
    assert set(said.license_files) == licences, "whatever is carried along comes with its licence"
    assert set(said.provides_extra or []) == set(EXTRAS)
    oldest = re.fullmatch(r">=(3\.\d+)", str(said.requires_python))
    assert oldest and f"Programming Language :: Python :: {oldest[1]}" in (said.classifiers or [])


def test_the_newest_entry_of_the_changelog_is_this_version() -> None:
    headings = re.findall(r"^## (.*)$", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
    newest = headings[1] if headings[0] == "Unreleased" else headings[0]
    assert re.fullmatch(rf"{re.escape(VERSION)} \(\d{{4}}-\d\d-\d\d\)", newest), newest


def required(texts: list[str]) -> Iterator[str]:
    """The distributions that requirements name, those of our own extras among them."""
    for one in map(Requirement, texts):
        if one.name == "glasstream":
            for extra in one.extras:
                yield from required(EXTRAS[extra])
        else:
            yield canonicalize_name(one.name)


def imported(folder: Path) -> set[str]:
    """Foreign packages that the modules of a folder import."""
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                found.add(str(node.module).partition(".")[0])
    return found - set(sys.stdlib_module_names) - PACKAGES - {"glasstream_lab"}


def test_what_is_imported_is_asked_for_or_comes_with_what_is() -> None:
    asked = {*required(PROJECT["project"]["dependencies"]), *required(EXTRAS["all"])}
    along = {canonicalize_name(Requirement(text).name) for name in asked for text in requires(name) or []}
    providers = packages_distributions()
    for module in set().union(*map(imported, SOURCES)):
        assert {canonicalize_name(name) for name in providers[module]} & (asked | along), module


def test_all_is_what_a_user_may_need_and_not_what_tests_do() -> None:
    everything = set(required(EXTRAS["all"]))
    of_users = set(EXTRAS) - {"all", "bench", "site", "test"}
    assert everything == {name for extra in of_users for name in required(EXTRAS[extra])}
    assert not everything & {"pytest", "mypy", "ruff", "hatchling", "psutil", "sphinx"}


def install(wheel: Path, folder: Path) -> Path:
    """An environment with the wheel in it, which sees our dependencies and not the project; its packages."""
    venv.create(folder, symlinks=True)
    pip = (sys.executable, "-m", "pip", "--python", folder / "bin" / "python", "--disable-pip-version-check")
    done(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=folder)
    (packages,) = folder.glob("lib/python*/site-packages")
    # A folder in such a file is looked into after those before it, and its own such files (of an editable project) are
    # not read.
    (packages / "dependencies.pth").write_text(f"{DEPENDENCIES}\n")
    return packages


def give_kernels(packages: Path) -> None:
    """Reuse the kernels that the source tree has compiled, to save time: they are stamped by content."""
    for folder in SOURCES:
        for source in folder.rglob("*.py"):
            there = packages / source.relative_to(folder)
            if not there.exists():  # part of another package
                continue
            for kernel in source.parent.glob(f"__pycache__/{source.stem}.*.nb[ci]"):
                (there.parent / "__pycache__").mkdir(exist_ok=True)
                shutil.copy(kernel, there.parent / "__pycache__")


def test_the_wheel_does_outside_of_the_source_tree_what_the_source_does(release: Release, tmp_path: Path) -> None:
    away = tmp_path / "away"
    away.mkdir()
    here = {**os.environ, "PYTHONPATH": os.pathsep.join([*map(str, SOURCES), os.environ.get("PYTHONPATH", "")])}
    done(sys.executable, "-m", "glasstream.app.command.main", *RUN, "source", "--broker", "none", cwd=away, env=here)

    packages = install(release.wheel, tmp_path / "installed")
    give_kernels(packages)
    programs = tmp_path / "installed" / "bin"
    environment = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(away)}

    def glasstream(*arguments: str) -> str:
        return done(programs / "glasstream", *arguments, cwd=away, env=environment)

    imports = "import glasstream as one, glasstream_topics as other; print(one.__file__, other.__file__)"
    where = done(programs / "python", "-c", imports, cwd=away, env=environment)
    assert where.split() == [str(packages / name / "__init__.py") for name in ("glasstream", "glasstream_topics")]
    generic = "from importlib.util import find_spec as find; print(*map(find, ('pipeline', 'topics', 'tests')))"
    assert done(programs / "python", "-c", generic, cwd=away, env=environment).split() == ["None"] * 3
    assert glasstream("--version").split()[-1] == VERSION
    assert "--port" in glasstream("page", "--help")
    for broker in ("none", "embedded"):
        assert "300 rows explained" in glasstream(*RUN, broker, "--broker", broker)
    expected = files(".", root=away / "source")
    assert expected["importance.jsonl"] and expected["effects.jsonl"]
    for broker in ("none", "embedded"):
        assert files(".", root=away / broker) == expected, broker


@pytest.mark.slow
def test_tests_of_the_source_distribution_can_be_collected(release: Release) -> None:
    """Tests that look at files of the project. The other tests import only what the wheel also contains."""
    folders = [str(release.unpacked / folder) for folder in (".", "pipeline", "topics")]
    path = os.pathsep.join([*folders, os.environ.get("PYTHONPATH", "")])
    collect = (sys.executable, "-m", "pytest", "--collect-only", "--quiet", "--slow", "-p", "no:cacheprovider")
    asked = ("tests/ops", "tests/topics", "tests/test_architecture.py", "tests/docs")
    told = done(*collect, *asked, cwd=release.unpacked, env={**os.environ, "PYTHONPATH": path})
    found = {line.partition("::")[0] for line in told.splitlines() if "::" in line}
    assert found == {
        str(file.relative_to(ROOT))
        for one in asked
        for file in (ROOT / one, *(ROOT / one).rglob("test_*.py"))
        if file.is_file()
    }
