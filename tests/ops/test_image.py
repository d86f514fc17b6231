"""The steps of the image, made in a folder: installed, then run as a container would be."""

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.ops.dockerfile import build_steps, variables

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
USER = 10_001
DEPENDENCIES = Path(sysconfig.get_path("purelib"))
LESS = (("pip install", "pip install --no-deps"), ("forest tree linear", "linear"), ("ipfi,isage,ipdp", "ipfi"))
"""What is left out of the steps here for the sake of time; the dependencies are those of these tests."""


def everybody_may_read(*paths: Path) -> bool:
    return all(part.stat().st_mode & 0o001 for path in paths for part in (path, *path.parents))


class Image:
    """A folder in the place of the image's root."""

    def __init__(self, root: Path) -> None:
        self.installed = root / "opt" / "glasstream"
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
        path = f"{self.installed}/bin:{Path(sys.executable).parent}:{os.environ['PATH']}"
        for step in build_steps():
            for there, here in (("/opt/glasstream", str(self.installed)), *LESS):
                step = step.replace(there, here)
            done = subprocess.run(
                ["sh", "-ec", step],
                cwd=source,
                env={**os.environ, "PATH": path},
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            (packages,) = self.installed.glob("lib/python*/site-packages")
            (packages / "dependencies.pth").write_text(f"{DEPENDENCIES}\n")
        shutil.rmtree(source)
        self.cache.mkdir()
        if self.as_user:
            os.chown(self.cache, USER, USER)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """What a container of this command does, in the environment of the image and no other."""
        environment = {name: text.replace("/opt/glasstream", str(self.installed)) for name, text in variables().items()}
        environment |= {"PATH": f"{self.installed}/bin:/usr/bin:/bin", "NUMBA_CACHE_DIR": str(self.cache)}
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
    """What is in a folder, and when it was written."""
    return {file.relative_to(folder): file.stat().st_mtime_ns for file in folder.rglob("*")}


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    with TemporaryDirectory() as folder:  # not pytest's, which only their owner may enter
        Path(folder).chmod(0o755)
        yield Image(Path(folder))


def test_it_runs_without_a_home_writes_to_its_cache_only_and_compiles_nothing(image: Image) -> None:
    before = files(image.installed)
    assert "Explain models while they learn" in image.run("--help").stdout
    ran = image.run("run", "--broker", "none", "--rows", "600", "--model", "linear")
    assert ran.returncode == 0, ran.stderr
    assert "500 rows explained" in ran.stdout
    assert files(image.installed) == before
    assert set(files(image.cache)) == set(files(image.installed / "kernels"))


def test_a_cache_that_cannot_be_written_is_said(image: Image) -> None:
    image.cache.rename(image.cache.with_name("away"))
    refused = image.run("--help")
    assert refused.returncode == 2
    assert f"expected NUMBA_CACHE_DIR={image.cache} to be writable" in refused.stderr
