"""The algorithms stay pure: what they import is checked here, file by file."""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "pipeline" / "glasstream"
CONTRACT = ROOT / "topics" / "glasstream_topics"
CORE = (
    "ingest", "models", "background", "learn", "learning", "explain", "aggregator", "drift", "estimators", "checks",
    "gbmap", "novelty", "notify", "methods", "incidents", "intake",
)  # fmt: skip
PURE = [
    SOURCE / "draws.py",
    SOURCE / "settings.py",
    SOURCE / "changes.py",
    SOURCE / "form.py",
    *(path for folder in CORE for path in (SOURCE / folder).rglob("*.py")),
    *(SOURCE / "research").glob("*.py"),  # but not the experiments below it, which start processes
    *(SOURCE / "page" / f"{name}.py" for name in ("access", "history", "parts", "store", "stream", "viewer")),
    *(path for path in CONTRACT.glob("*.py") if path.name not in ("admin.py", "reference.py", "schema.py")),
]
FORBIDDEN = {
    "aiokafka", "asyncio", "confluent_kafka", "datetime", "faust", "logging", "mode", "os", "pathlib", "random",
    "socket", "subprocess", "sys", "threading", "time",
}  # fmt: skip
PRODUCTS = {"dot", "matmul", "einsum", "inner", "tensordot", "vdot"}
SHELL = (
    "glasstream.brokers",
    "glasstream.command",
    "glasstream.operate",
    "glasstream.runner",
    "glasstream.sources",
    "glasstream.stages",
    "glasstream.transport",
    "glasstream.configuration",
    "glasstream.trial",
)
MODELS = {
    "contract": ("contract", "glasstream.errors", "numpy"),
    "kernels": ("contract", "kernels", "glasstream.jit", "llvmlite", "numba", "numpy"),
    "compiler": ("contract", "kernels", "compiler", "glasstream.errors", "glasstream.ingest", "numpy", "river"),
    "live": (
        "glasstream.changes", "msgspec",
        "contract", "kernels", "live",
        "glasstream.errors", "glasstream.ingest", "glasstream.jit", "glasstream.learning", "glasstream_topics", "numpy",
        "river",
    ),
    "fixed": (
        "contract", "kernels", "fixed", "glasstream.models.live.stream_model",
        "glasstream.errors", "glasstream.ingest", "glasstream.learning.live", "glasstream_topics", "numpy",
    ),
    "codec": (
        "contract", "kernels", "codec", "glasstream.models.fixed.runtime", "glasstream.models.live.generic",
        "glasstream.errors", "glasstream_topics", "cramjam", "numpy", "orjson",
    ),
}  # fmt: skip
"""What the modules of each group of `glasstream.models` may import beside the standard library: groups, packages."""


@cache
def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names} | {node.module or ""}
    return found


def test_algorithms_import_no_kafka_no_clock_no_environment_no_logging() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in PURE
        for name in imports(path)
        if name.split(".")[0] in FORBIDDEN or name.startswith((*SHELL, "numpy.random"))
    }
    assert not found
    assert len(PURE) > 100


def test_each_group_of_the_models_imports_only_what_it_may() -> None:
    """An explainer needs `kernels` and `codec` only, so that they import no River."""
    folders = SOURCE / "models"
    assert {path.name for path in folders.iterdir() if (path / "__init__.py").exists()} == set(MODELS)
    assert [path.name for path in folders.glob("*.py")] == ["__init__.py"]
    found = set()
    for group, may in MODELS.items():
        allowed = {f"glasstream.models.{name}" if name in MODELS else name for name in may}
        for path in (folders / group).glob("*.py"):
            for name in imports(path):
                within = any(name == one or name.startswith(f"{one}.") for one in allowed)
                whole = any(one.startswith(f"{name}.") for one in allowed)  # the package of an allowed module
                if not within and not whole and name.split(".")[0] not in sys.stdlib_module_names:
                    found.add(f"{path.relative_to(ROOT)}: {name}")
    assert not found


def test_no_product_of_matrices_and_no_global_randomness() -> None:
    """BLAS changes bits with the batch size (measured), and global random state with everything."""
    found = [f"{path.relative_to(ROOT)}:{what}" for path in PURE for what in impurities(path)]
    assert not found


def impurities(path: Path) -> Iterator[str]:
    """Yield where a module multiplies matrices or draws from global randomness: line and what."""
    checks = path.name == "checks.py" or path.parent.name == "checks"  # they make rows of their own
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            yield f"{node.lineno}: @"
        if not isinstance(node, ast.Attribute):
            continue
        if isinstance(node.value, ast.Name) and node.value.id == "np" and node.attr in PRODUCTS:
            yield f"{node.lineno}: np.{node.attr}"
        if node.attr == "random" and not checks:
            yield f"{node.lineno}: numpy.random"


def test_only_the_command_line_and_the_public_names_import_research() -> None:
    """Otherwise every stage would import it, and wait for something that it does not need."""
    importers = {
        path.relative_to(SOURCE).parts[0]
        for path in SOURCE.rglob("*.py")
        if any(name.startswith("glasstream.research") for name in imports(path))
    }
    assert importers == {"__init__.py", "command", "research"}


def test_nothing_asks_a_coordinator_in_a_way_that_may_end_the_process() -> None:
    """librdkafka fails an assertion when a coordinator answers after the request has timed out (its issue 4605)."""
    unsafe = {"describe_consumer_groups", "list_consumer_group_offsets", "alter_consumer_group_offsets"}
    found = {
        f"{path.relative_to(ROOT)}:{node.lineno}: {node.attr}"
        for path in (*SOURCE.rglob("*.py"), *CONTRACT.glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and node.attr in unsafe
    }
    assert not found


def test_only_the_command_line_imports_the_command_line() -> None:
    for path in SOURCE.rglob("*.py"):
        if path.relative_to(SOURCE).parts[0] not in ("command", "__main__.py"):
            assert not [name for name in imports(path) if name.startswith("glasstream.command")], path


def test_the_contracts_know_nothing_of_the_pipeline() -> None:
    for path in CONTRACT.glob("*.py"):
        assert not [name for name in imports(path) if name.split(".")[0] == "glasstream"], path


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
