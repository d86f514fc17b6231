"""What import-linter cannot see: products of matrices, randomness, unsafe calls, and the names at the top level."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.heavy import heavy
from tests.support.paths import ROOT, SOURCE

CONTRACT = ROOT / "topics" / "glasstream_topics"
PURE = [
    *(
        path
        for name in ("base", "events", "models", "explain", "detect", "flow")
        for path in (SOURCE / name).rglob("*.py")
    ),
    *CONTRACT.glob("*.py"),
]
PRODUCTS = {"dot", "matmul", "einsum", "inner", "tensordot", "vdot"}


def linted(folder: Path) -> subprocess.CompletedProcess[str]:
    """Check the imports of a checkout against the contracts of pyproject.toml."""
    paths = [str(folder / top) for top in ("pipeline", "topics")]
    program = f"import sys; sys.path[:0] = {paths!r}; from importlinter.cli import lint_imports_command as lint; lint()"
    command = [sys.executable, "-c", program, "--config", str(ROOT / "pyproject.toml"), "--no-cache"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.program
@pytest.mark.parametrize(
    ("module", "line", "contract"),
    [
        ("glasstream/events/places.py", "from glasstream.flow.settings import Settings", "A package imports only"),
        ("glasstream/detect/drift/adwin.py", "import time", "The pure packages"),
        ("glasstream/models/predictors/labels.py", "import river", "Explainers need no River"),
        ("glasstream/models/online/state.py", "from river import tree", "Only glasstream.models.river"),
        ("glasstream/models/online/state.py", "from glasstream.models.river.live import take", "No two parts"),
        ("glasstream/explain/smoothing.py", "import glasstream.explain.importance", "No two parts"),
    ],
)  # fmt: skip
def test_a_wrong_import_breaks_a_contract(tmp_path: Path, module: str, line: str, contract: str) -> None:
    for top in ("pipeline", "topics"):
        (tmp_path / top).mkdir()
        for path in (ROOT / top).rglob("*.py"):
            copied = tmp_path / path.relative_to(ROOT)
            copied.parent.mkdir(parents=True, exist_ok=True)
            copied.write_bytes(path.read_bytes())
    wrong = tmp_path / "pipeline" / module
    wrong.write_text(f"{line}\n{wrong.read_text(encoding='utf-8')}", encoding="utf-8")
    found = linted(tmp_path)
    assert found.returncode == 1, found.stdout + found.stderr
    assert [text for text in found.stdout.splitlines() if "BROKEN" in text and text.startswith(contract)]


def test_no_product_of_matrices_and_no_global_randomness() -> None:
    """BLAS changes bits with the batch size (measured), and global random state with everything."""
    found = [f"{path.relative_to(ROOT)}:{what}" for path in PURE for what in impurities(path)]
    assert not found
    assert len(PURE) > 100


def impurities(path: Path) -> Iterator[str]:
    """Yield where a module multiplies matrices or draws from global randomness: line and what."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            yield f"{node.lineno}: @"
        if not isinstance(node, ast.Attribute):
            continue
        if isinstance(node.value, ast.Name) and node.value.id == "np" and node.attr in PRODUCTS:
            yield f"{node.lineno}: np.{node.attr}"
        if node.attr == "random" and path.name != "checks.py":  # it makes rows of its own
            yield f"{node.lineno}: numpy.random"


def called(names: set[str]) -> set[str]:
    """Return the places where the product uses an attribute with one of these names."""
    return {
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for path in (*SOURCE.rglob("*.py"), *CONTRACT.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in names
    }


def test_nothing_asks_a_coordinator_in_a_way_that_may_end_the_process() -> None:
    """librdkafka fails an assertion when a coordinator answers after the request has timed out (its issue 4605)."""
    assert not called({"describe_consumer_groups", "list_consumer_group_offsets", "alter_consumer_group_offsets"})


def test_nothing_flushes_a_producer_which_would_lose_a_report_if_the_producer_has_ended() -> None:
    """`glasstream.kafka.transport.connection.drain` waits for the reports instead."""
    with_producers = {
        str(path.relative_to(ROOT))
        for path in (*SOURCE.rglob("*.py"), *CONTRACT.rglob("*.py"))
        if re.search(r"^from confluent_kafka import .*\bProducer\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert len(with_producers) > 5
    assert not {place for place in called({"flush"}) if place.partition(":")[0] in with_producers}


def test_programs_that_import_the_tests_find_them() -> None:
    """A program that is started by its path has its own folder in front of the path of modules, and no checkout."""
    programs = [file for folder in ("benchmarks", "chaos") for file in (ROOT / "tests" / folder).glob("*.py")]
    texts = {file.name: file.read_text(encoding="utf-8") for file in programs}
    of_tests = {
        name: text for name, text in texts.items() if "__main__" in text and re.search(r"^\s*from tests", text, re.M)
    }
    lost = [name for name, text in of_tests.items() if "sys.path[0] = str(Path(__file__)" not in text]
    assert of_tests
    assert lost == []


def test_names_of_tests_have_at_most_90_characters() -> None:
    """A longer name states more than one property."""
    sources = {path: path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")}
    names = {
        name: path for path, text in sources.items() for name in re.findall(r"^ *(?:async )?def (test_\w+)", text, re.M)
    }
    assert len(names) > 1_000
    assert {name: path for name, path in names.items() if len(name) > 90} == {}


def test_only_the_fixed_names_stand_at_the_top_level() -> None:
    allowed = {
        "pyproject.toml",
        "docker-compose.yml",
        "README.md",
        "pipeline",
        "topics",
        "tests",
        "ops",
        "examples",
        "LICENSE",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
    }
    found = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    of_compose = {"hmac.key", "page.token", "notify.url", "notify.key"}
    assert found - of_compose - {"PKG-INFO"} <= allowed  # the latter is an sdist's own


def test_what_the_check_leaves_out_is_there() -> None:
    """A test that is renamed is light until the list is written anew."""
    for one in heavy():
        path, name = one.split("::")
        assert f"def {name}(" in (ROOT / "tests" / path).read_text(encoding="utf-8"), one
