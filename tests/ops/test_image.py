"""The steps of the image, made in a folder: installed, then run as a container would be."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.dockerfile import steps, variables

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
USER = 10_001
DEPENDENCIES = Path(sysconfig.get_path("purelib"))
PRECOMPILED = (
    "precompile.warm_up(); "
    'precompile.precompile_case(precompile.Case("two", {"model.name": "linear", "explain.methods": "ipfi"}))'
)
HERE = (
    ("/build/bin/pip", f"{sys.executable} -m pip"),
    ("-m glasstream.app.runner.precompile", f"-c 'from glasstream.app.runner import precompile; {PRECOMPILED}'"),
)
"""What is put in the place of parts of the steps: the dependencies are those of these tests, and not every kernel is
compiled, for the sake of time."""


def everybody_may_read(*paths: Path) -> bool:
    return all(part.stat().st_mode & 0o001 for path in paths for part in (path, *path.parents))


class Image:
    """A folder in the place of the image's root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.installed = root / "opt"
        self.cache = root / "cache"
        self.entrypoint = root / "entrypoint"
        # As the image's user where that one can read Python and the dependencies, else as the user of the tests.
        self.as_user = os.geteuid() == 0 and everybody_may_read(Path(sys.executable).resolve(), DEPENDENCIES)
        source = root / "source"
        for folder in ("pipeline", "topics"):
            shutil.copytree(ROOT / folder, source / folder, ignore=shutil.ignore_patterns("__pycache__"))
        for file in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / file, source)
        shutil.copy(ROOT / "ops" / "entrypoint", self.entrypoint)
        venv.create(self.installed / "glasstream", with_pip=False)
        (packages,) = self.installed.glob("glasstream/lib/python*/site-packages")
        # Ours before the checkout, which is among the dependencies of these tests.
        (packages / "code.pth").write_text(f"{self.installed}/code\n{DEPENDENCIES}\n")
        for folder, step in steps("code"):
            for there, here in (("/opt/", f"{self.installed}/"), ("/wheel", str(root / "wheel")), *HERE):
                step = step.replace(there, here)
            place = source if folder == "/source" else folder
            # Without PYTHONPATH: kernels are kept by the path of the module that was imported.
            env = {name: text for name, text in os.environ.items() if name != "PYTHONPATH"}
            done = subprocess.run(["sh", "-ec", step], cwd=place, env=env, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr
        shutil.rmtree(source)
        self.cache.mkdir()
        if self.as_user:
            os.chown(self.cache, USER, USER)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run what a container of this command runs, in the environment of the image and no other."""
        environment = {name: text.replace("/opt/", f"{self.installed}/") for name, text in variables().items()}
        path = f"{self.installed}/code/bin:{self.installed}/glasstream/bin:/usr/bin:/bin"
        environment |= {"PATH": path, "NUMBA_CACHE_DIR": str(self.cache)}
        return subprocess.run(
            [str(self.entrypoint), *command],
            cwd="/",
            env=environment,
            user=USER if self.as_user else None,
            group=USER if self.as_user else None,
            extra_groups=[] if self.as_user else None,
            capture_output=True,
            text=True,
            check=False,
        )


def files(folder: Path) -> dict[Path, int]:
    """Return the files of a folder, and when each was written."""
    return {file.relative_to(folder): file.stat().st_mtime_ns for file in folder.rglob("*")}


def kernels(folder: Path) -> set[Path]:
    """The compiled kernels in a folder; a stage that makes one adds a file."""
    return {file.relative_to(folder) for file in folder.rglob("*.nbc")}


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    with TemporaryDirectory() as folder:  # not pytest's, which only their owner may enter
        Path(folder).chmod(0o755)
        yield Image(Path(folder))


def test_it_runs_without_a_home_writes_to_its_cache_only_and_its_stages_compile_nothing(image: Image) -> None:
    before = files(image.installed)
    assert "Explain models while they learn" in image.run("--help").stdout
    asked = ("--rows", "600", "--model", "linear", "--explain", "ipfi")
    ran = image.run("run", "--broker", "embedded", *asked)
    assert ran.returncode == 0, ran.stderr
    assert "500 rows explained" in ran.stdout
    assert files(image.installed) == before
    assert kernels(image.cache) == kernels(image.installed / "kernels")


def test_a_registry_that_keeps_whole_seconds_makes_no_kernel_stale(image: Image) -> None:
    sources = list((image.installed / "code").rglob("*.py"))
    assert sources and all(file.stat().st_mtime_ns % 1_000_000_000 == 0 for file in sources)


def test_a_cache_that_cannot_be_written_is_said(image: Image) -> None:
    image.cache.rename(image.cache.with_name("away"))
    refused = image.run("--help")
    assert refused.returncode == 2
    assert f"expected NUMBA_CACHE_DIR={image.cache} to be writable" in refused.stderr
