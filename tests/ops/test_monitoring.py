"""Alerts and dashboard: every expression is PromQL, and names metrics and labels that the stages publish."""

import json
import re
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path

import promql_parser
import pytest
import yaml

from glasstream.kafka.health.catalogue import ALL, Metric
from glasstream.kafka.stages.build import STAGES
from tests.support.alert_cases import CASES, PER_MINUTE, Case, gone, hold

ROOT = Path(__file__).resolve().parents[2]
ALERTS = [
    rule
    for group in yaml.safe_load((ROOT / "ops/prometheus/alerts.yml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
DASHBOARD = json.loads((ROOT / "ops/grafana/glasstream.json").read_text(encoding="utf-8"))
GRAPHS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
PUBLISHED = {metric.name + ("_total" if metric.kind == "counter" else ""): metric for metric in ALL}
PUBLISHED["up"] = Metric("up", "gauge", "Prometheus's own: whether a target answered.", ("job",))
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
    """Return the metrics and labels that an expression names and no stage publishes."""
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
    from glasstream.app.configuration import load

    text = (ROOT / "ops/docs/runbook.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:limits|checkpoint|novelty|isage|publish)\.\w+)`", text))
    assert len(named) > 5
    for name in named:
        section, key = name.split(".")
        assert hasattr(getattr(load(), section), key), name


def seconds(duration: str) -> float:
    """Return what a duration of Prometheus lasts."""
    return float(duration[:-1]) * {"s": 1, "m": 60, "h": 3_600, "d": 86_400}[duration[-1]]


def notation(values: Iterable[float | None]) -> str:
    """Return values as promtool reads them; a series whose scrape fails is stale at once."""
    told: list[str] = []
    before: float | None = None
    for value in values:
        told.append(f"{value:g}" if value is not None else "stale" if before is not None else "_")
        before = value
    return " ".join(told)


def at(minutes: float) -> str:
    return f"{round(minutes * 60)}s"


def unit_test(case: Case) -> dict[str, object]:
    """Return a case as promtool reads it: when the alert is on, and at its last minute with what it says."""
    [rule] = [rule for rule in ALERTS if rule["alert"] == case.alert]
    on = [
        {"severity": rule["labels"]["severity"], **labels}
        for labels, _ in sorted(case.expected, key=lambda one: sorted(one[0].items()))
    ]
    samples = [
        {
            "labels": "ALERTS"
            + json.dumps({"alertname": case.alert, "alertstate": "firing", **labels})
            .replace('": ', "=")
            .replace('{"', "{")
            .replace(', "', ", "),
            "value": 1,
        }
        for labels in on
    ]
    return {
        "name": f"{case.alert}: {case.what}",
        "interval": f"{60 // PER_MINUTE}s",
        "input_series": [{"series": name, "values": notation(values)} for name, values in case.series.items()],
        "promql_expr_test": [
            {
                "expr": f'ALERTS{{alertname="{case.alert}", alertstate="firing"}}',
                "eval_time": at(minute),
                "exp_samples": samples if minute in case.firing else [],
            }
            for minute in sorted({*case.firing, *case.quiet})
        ],
        "alert_rule_test": [
            {
                "eval_time": at(case.firing[-1]),
                "alertname": case.alert,
                "exp_alerts": [
                    {
                        "exp_labels": labels,
                        "exp_annotations": {"summary": summary, "runbook": rule["annotations"]["runbook"]},
                    }
                    for labels, (_, summary) in zip(
                        on, sorted(case.expected, key=lambda one: sorted(one[0].items())), strict=True
                    )
                ],
            }
        ]
        if case.firing
        else [],
    }


def check_rules(promtool: str, folder: Path, *tests: dict[str, object]) -> str:
    """Return what promtool finds wrong: nothing if all is as expected."""
    asked = {name for test in tests for name in re.findall(r"Glasstream\w+", json.dumps(test))}
    rules = [rule for rule in ALERTS if rule["alert"] in asked]
    (folder / "alerts.yml").write_text(json.dumps({"groups": [{"name": "asked", "rules": rules}]}))
    file = folder / "test.yml"
    content = {"rule_files": ["alerts.yml"], "evaluation_interval": f"{60 // PER_MINUTE}s", "tests": tests}
    file.write_text(json.dumps(content))
    ended = subprocess.run([promtool, "test", "rules", str(file)], capture_output=True, text=True, check=False)
    return "" if ended.returncode == 0 else ended.stdout + ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("alert", [rule["alert"] for rule in ALERTS])
def test_an_alert_is_on_when_it_should_be_and_only_then(alert: str, promtool: str, tmp_path: Path) -> None:
    cases = [case for case in CASES if case.alert == alert]
    assert [case.played for case in cases if case.firing].count(True) == 1
    assert any(case.firing and case.quiet for case in cases), "expected a case that fires and one in which it is over"
    assert any(not case.firing for case in cases), "expected a case in which it does not fire"
    assert check_rules(promtool, tmp_path, *map(unit_test, cases)) == ""


@pytest.mark.slow
def test_a_case_that_does_not_hold_would_be_found(promtool: str, tmp_path: Path) -> None:
    case = next(case for case in CASES if case.alert == "GlasstreamStalled" and case.firing)
    wrong = Case(case.alert, case.what, case.series, case.quiet, case.firing, case.expected)
    assert "FAILED" in check_rules(promtool, tmp_path, unit_test(wrong))


COUNTING = [
    (rule["alert"], name)
    for rule in ALERTS
    for name in dict.fromkeys(series.name for series in selectors(promql_parser.parse(rule["expr"])))
    if PUBLISHED[name].kind == "counter" and "for" not in rule
]


@pytest.mark.slow
@pytest.mark.parametrize(("alert", "name"), COUNTING)
def test_an_alert_counts_what_happened_before_the_first_scrape(
    alert: str, name: str, promtool: str, tmp_path: Path
) -> None:
    """A worker that started a moment ago has counted already when Prometheus asks it for the first time."""
    labels = {"stage": "a", "instance": "b", **dict.fromkeys(PUBLISHED[name].labels, "c")}
    series = name + json.dumps(labels).replace('": ', "=").replace('{"', "{").replace(', "', ", ")
    [rule] = [rule for rule in ALERTS if rule["alert"] == alert]
    unit = unit_test(Case(alert, "appears", {series: gone(5) + hold(9, 90)}, quiet=[4]))
    unit["promql_expr_test"] = [
        {
            "expr": f'count(ALERTS{{alertname="{alert}", alertstate="firing"}}) or vector(0)',
            "eval_time": at(minute),
            "exp_samples": [{"labels": "{}", "value": on}],
        }
        for minute, on in ((4, 0), (5.5, 1), (90, 0))
    ]
    assert rule and check_rules(promtool, tmp_path, unit) == ""


def test_the_scrape_configuration_names_every_stage_and_keeps_the_names_of_workers(
    promtool: str, tmp_path: Path
) -> None:
    path = ROOT / "ops/prometheus/prometheus.yml"
    ended = subprocess.run([promtool, "check", "config", str(path)], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    [job] = content["scrape_configs"]
    assert job["honor_labels"] is True
    assert f'job="{job["job_name"]}"' in next(
        rule["expr"] for rule in ALERTS if rule["alert"] == "GlasstreamWorkerDown"
    )
    [found] = job["dns_sd_configs"]
    assert sorted(found["names"]) == sorted(STAGES)
    assert seconds(content["global"]["scrape_interval"]) == 60 / PER_MINUTE
