"""The notice of a compilation: once in a run that compiles, never in one that loads all kernels from the cache."""

import importlib.util
from pathlib import Path
from types import ModuleType

from glasstream.app.runner.compile_notice import compile_notice

_KERNELS = """
import numba

@numba.njit(cache=True)
def double(x):
    return 2 * x

@numba.njit(cache=True)
def square(x):
    return x * x
"""


def test_a_run_says_once_that_it_compiles_and_the_next_one_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "kernels_of_a_test.py").write_text(_KERNELS, encoding="utf-8")
    assert [line.startswith("compiling numerical kernels") for line in _run(tmp_path)] == [True]
    assert _run(tmp_path) == []


def test_a_compilation_after_the_run_is_not_reported(tmp_path: Path) -> None:
    (tmp_path / "kernels_of_a_test.py").write_text(_KERNELS, encoding="utf-8")
    said: list[str] = []
    with compile_notice(said.append):
        pass
    assert _load(tmp_path).double(3) == 6
    assert said == []


def _run(folder: Path) -> list[str]:
    """Return what is said while freshly loaded kernels are called."""
    said: list[str] = []
    kernels = _load(folder)
    with compile_notice(said.append):
        assert kernels.double(3) == 6
        assert kernels.square(3) == 9
        assert kernels.square(0.5) == 0.25
    return said


def _load(folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("kernels_of_a_test", folder / "kernels_of_a_test.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
