"""Alerts and dashboard: every expression is PromQL, and names metrics and labels that the stages publish."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import promql_parser
import pytest
import yaml

from pipeline.health.catalogue import ALL

ROOT = Path(__file__).resolve().parents[2]
ALERTS = [
    rule
    for group in yaml.safe_load((ROOT / "ops/prometheus/alerts.yml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
DASHBOARD = json.loads((ROOT / "ops/grafana/glasstream.json").read_text(encoding="utf-8"))
GRAPHS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
PUBLISHED = {metric.name + ("_total" if metric.kind == "counter" else ""): metric for metric in ALL}
OF_ALL = {"stage", "instance"}


def of_grafana(expression: str) -> str:
    """With the variables of the dashboard filled in."""
    return expression.replace("$stream", ".*")


EXPRESSIONS = {
    **{rule["alert"]: rule["expr"] for rule in ALERTS},
    **{
        f"{panel['title']} {target['refId']}": of_grafana(target["expr"])
        for panel in GRAPHS
        for target in panel["targets"]
    },
    "marks": of_grafana(DASHBOARD["annotations"]["list"][0]["expr"]),
}


def selectors(node: object) -> Iterator[promql_parser.VectorSelector]:
    """The series that an expression asks for."""
    if isinstance(node, promql_parser.VectorSelector):
        yield node
        return
    inner = [getattr(node, name, None) for name in ("expr", "lhs", "rhs", "vector_selector")]
    for part in [*inner, *getattr(node, "args", [])]:
        if part is not None:
            yield from selectors(part)


def unknown(expression: str) -> list[str]:
    """What an expression names that no stage publishes."""
    found: list[str] = []
    asked = list(selectors(promql_parser.parse(expression)))
    assert asked, expression
    grouped = {label for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(", ")}
    for series in asked:
        metric = PUBLISHED.get(series.name)
        if metric is None:
            found.append(series.name)
            continue
        matched = {matcher.name for matcher in series.matchers.matchers}
        found += sorted((grouped | matched) - OF_ALL - set(metric.labels))
    return found


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_every_expression_asks_for_what_is_published(name: str) -> None:
    assert unknown(EXPRESSIONS[name]) == []


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("sum by (stream) (glasstream_lag) > 1", ["glasstream_lag"]),
        ("max by (stream) (glasstream_input_lag) > 1", ["stream"]),
        ('rate(glasstream_events{stream="a"}[5m])', ["glasstream_events"]),
        ("a / b", ["a", "b"]),
    ],
)
def test_what_is_not_published_would_be_found(expression: str, expected: list[str]) -> None:
    assert unknown(expression) == expected


def test_every_alert_says_what_it_means_and_where_to_read_what_to_do() -> None:
    headings = re.findall(r"^## (.+)$", (ROOT / "ops/docs/runbook.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert headings == [rule["alert"] for rule in ALERTS]
    for rule in ALERTS:
        assert rule["annotations"]["runbook"] == f"ops/docs/runbook.md#{rule['alert'].lower()}"
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        asked = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]))
        assert asked <= {label for group in re.findall(r"by \(([^)]*)\)", rule["expr"]) for label in group.split(", ")}


def test_every_graph_has_a_question_a_place_and_a_legend_of_labels_that_it_has() -> None:
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in DASHBOARD["panels"]]
    assert len(set(places)) == len(places)
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    for panel in GRAPHS:
        assert panel["title"] and panel["fieldConfig"]["defaults"]["unit"]
        for target in panel["targets"]:
            asked = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            kept = {label for group in re.findall(r"by \(([^)]*)\)", target["expr"]) for label in group.split(", ")}
            assert asked <= kept, target


def test_the_settings_that_the_runbook_names_exist() -> None:
    from pipeline.configuration import load

    text = (ROOT / "ops/docs/runbook.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:limits|checkpoint|sentinel|isage|publish)\.\w+)`", text))
    assert len(named) > 5
    for name in named:
        section, key = name.split(".")
        assert hasattr(getattr(load(), section), key), name
