"""`from glasstream import ...`: every public name is there, and importing the package costs nothing."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import glasstream


@pytest.mark.parametrize("name", glasstream.__all__)
def test_a_public_name_is_what_its_module_defines(name: str) -> None:
    assert getattr(glasstream, name).__name__ == name
    assert name in dir(glasstream)


def test_type_checkers_see_the_same_names_in_the_same_modules() -> None:
    tree = ast.parse(Path(str(glasstream.__file__)).read_text(encoding="utf-8"))
    (seen,) = (node for node in tree.body if isinstance(node, ast.If))
    imported = {node.names[0].name: node.module for node in seen.body if isinstance(node, ast.ImportFrom)}
    assert imported == glasstream._MODULES


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'IncrementalSHAP'"):
        glasstream.IncrementalSHAP  # noqa: B018


def test_the_package_alone_loads_nothing_else() -> None:
    foreign = "{name for name in sys.modules if name.partition('.')[0] not in sys.stdlib_module_names}"
    script = f"import sys; before = {foreign}; import glasstream; print({foreign} - before)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "{'glasstream'}\n"
