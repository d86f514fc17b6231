"""The notebooks in `examples` run from top to bottom, and what a cell ends with shows itself."""

import ast
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "examples"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))


class Tree(HTMLParser):
    """Check that every element is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.seen.add(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def cells(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text(encoding="utf-8"))["cells"]


def shown(cell: str, names: dict[str, Any]) -> Any:
    """Run a cell as a notebook does, and return the value of its last expression."""
    tree = ast.parse(cell)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last is not None else None


@pytest.mark.program
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_its_values_show_themselves(path: Path) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    tables = 0
    for cell in cells(path):
        if cell["cell_type"] != "code":
            continue
        value = shown("".join(cell["source"]), names)
        if hasattr(value, "_repr_html_"):
            tree = Tree()
            tree.feed(value._repr_html_())
            assert tree.open == [] and {"table", "td"} <= tree.seen
            tables += 1
    assert tables >= (1 if path.stem == "tables" else 3)
    EXPECTED[path.stem](names)


def estimators(names: dict[str, Any]) -> None:
    assert names["leading"] == "feature 2"


def incidents(names: dict[str, Any]) -> None:
    assert names["incident"].verdict == "concept_moved" and abs(names["incident"].onset.row - 3_000) < 300
    ranks = names["ipfi"][-1].features
    assert {ranks["age"].rank, ranks["elevel"].rank} & {1} and names["before"].features["salary"].rank < 4
    assert names["curve"].feature == names["leading"]


def production(names: dict[str, Any]) -> None:
    assert names["accuracy"]["before"] > 0.95 and names["accuracy"]["after"] < 0.6
    assert names["incident"].verdict == "concept_moved" and abs(names["incident"].onset.row - 4_000) < 100
    assert {one.feature for one in names["incident"].features} <= {"salary", "commission", "loan"}  # the new rule
    assert names["leading"] in {"age", "elevel"} and names["curve"].feature == names["leading"]


def tables(names: dict[str, Any]) -> None:
    times = names["by_time"].index
    assert str(times[0]).startswith("2026-01-02") and str(times[-1]).startswith("2026-01-21")
    assert {line.get_label() for line in names["axes"].lines} >= {"age", "salary", "elevel"}
    leaders = names["leaders"].sort_values("since")["feature"].tolist()  # from 11 January on, the loan decides
    assert leaders[0] in {"age", "elevel"} and leaders[-1] == "loan"


EXPECTED = {"estimators": estimators, "incidents": incidents, "production": production, "tables": tables}
"""What holds at the end of each notebook."""


def test_each_notebook_is_stored_without_results_and_its_links_lead_somewhere() -> None:
    assert {path.stem for path in NOTEBOOKS} == EXPECTED.keys()
    for path in NOTEBOOKS:
        for cell in cells(path):
            text = "".join(cell["source"])
            assert not cell.get("outputs") and cell.get("execution_count") is None
            for link in re.findall(r"\]\((\.\./[^)#]+)", text):
                assert (FOLDER / link).exists(), link
