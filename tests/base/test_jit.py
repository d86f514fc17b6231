"""Kernels are compiled once, and cached ones again when anything that they contain has changed."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest

from glasstream.base.errors import SettingsError
from glasstream.base.jit import kernel

OUTER = """
from glasstream.base.jit import kernel
from kernels.inner import scaled

@kernel
def outer(x):
    return _between(x)

@kernel
def _between(x):
    return scaled(x)
"""
INNER = """
from glasstream.base.jit import inlined
from kernels import constants

@inlined
def scaled(x):
    return {} * x * constants.SCALE
"""


@pytest.mark.program
def test_a_kernel_follows_changes_of_indirect_callees_and_of_constants(tmp_path: Path) -> None:
    package = tmp_path / "kernels"
    package.mkdir()
    (package / "outer.py").write_text(OUTER)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), *sys.path))}
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [
        sys.executable,
        "-c",
        "from kernels.outer import outer; print(outer(1), *outer.stats.cache_hits.values())",
    ]
    said = []
    for factor, scale in ((1, 2), (1, 2), (30, 2), (30, 50)):
        (package / "inner.py").write_text(INNER.format(factor))
        (package / "constants.py").write_text(f"SCALE = {scale}\n")
        for number, name in enumerate(("inner", "constants")):  # a change within the resolution of the clock
            os.utime(package / f"{name}.py", (0, (factor, scale)[number]))
        ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        said.append(ran.stdout.split())
    assert said == [["2"], ["2", "1"], ["60"], ["1500"]]


CALLERS = """
from glasstream.base.jit import kernel

@kernel
def scaled(x, factor):
    return x * factor

@kernel
def sum_of_three(x):
    return scaled(x, 1) + scaled(x, 2) + scaled(x, factor=3)
"""


def test_a_kernel_is_compiled_once_whatever_constants_its_callers_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kernels_with_constants.py").write_text(CALLERS)
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("kernels_with_constants")
    assert module.sum_of_three(5) == 30
    assert len(module.scaled.part.signatures) == 1


@pytest.mark.program
def test_what_only_kernels_call_has_no_machine_code_of_its_own_until_python_calls_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "kernels_with_constants.py").write_text(CALLERS)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), *sys.path))}
    environment.pop("NUMBA_CACHE_DIR", None)

    def cached_after(code: str) -> set[str]:
        command = [sys.executable, "-c", f"from kernels_with_constants import *; {code}"]
        subprocess.run(command, cwd=tmp_path, env=environment, check=True)
        return {file.name.partition("-")[0] for file in tmp_path.glob("__pycache__/*.nbc")}

    whole = "kernels_with_constants.sum_of_three"
    assert cached_after("assert sum_of_three(5) == 30") == {whole}
    assert cached_after("assert sum_of_three(5) + scaled(5, 2) == 40") == {whole, "kernels_with_constants.scaled"}


def test_numba_that_is_switched_off_is_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels use what only compiled code has. They would fail later, row by row."""
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    with pytest.raises(SettingsError, match=r"NUMBA_DISABLE_JIT: expected it to be unset or 0.*unset it"):
        kernel(lambda x: x)
