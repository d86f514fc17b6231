"""Fire and clear every alert once, with a real Prometheus and a real Alertmanager.

    python tests/chaos/alerts.py [--factor 15] [--only GlasstreamLag,GlasstreamDrift]
    python tests/chaos/alerts.py --deployment [--factor 10]

The first form plays the cases of `tests/support/alert_cases.py` to Prometheus as if workers published them; the second
runs workers on a Kafka of this machine, kills all explainers, sends messages that are rejected and values of another
kind, and mends it again. The rules are those that are shipped, with every duration divided by the factor; so is the
interval between scrapes, down to a second: times are coarser with a factor above 15. `promtool test rules` checks the
durations as they are shipped, in `./ops/test --slow`.

The table goes to stdout: for each alert, how long after its cause Alertmanager sent that it fires and, after the end of
its cause, that it is over; in seconds of the run, and in minutes of the rules as they are shipped. The exit code is 1
if an alert did not fire or did not clear.
"""

import argparse
import json
import random
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout, of which `tests` is a package

import orjson
import yaml

from glasstream.app.brokers.local import local_kafka
from glasstream.app.brokers.local.node import free_ports
from glasstream.app.configuration import load
from tests.support.alert_cases import CASES, PER_MINUTE, Case
from tests.support.deployment import ROOT, Deployment
from tests.support.waiting import holds_within, wait_for

SCRAPE_SECONDS = 60 / PER_MINUTE
SHORTEST = 1.0
"""Seconds between scrapes, and for each, at the least: a machine under load would miss more."""
UNITS = {"s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
MARGIN = 60.0
"""Seconds of the run that an alert may be late on a busy machine before the run gives up."""
ATTEMPTS = 3
"""How often cases are played whose alerts did not fire or not clear: a scrape that is late makes a series end."""


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def scaled(factor: float) -> dict[str, object]:
    """Return the rules that are shipped, with every duration divided by `factor`."""

    def shorter(duration: str) -> str:
        return f"{round(float(duration[:-1]) * UNITS[duration[-1]] / factor * 1000)}ms"

    rules = yaml.safe_load((ROOT / "ops/prometheus/alerts.yml").read_text(encoding="utf-8"))
    for group in rules["groups"]:
        for rule in group["rules"]:
            rule["expr"] = re.sub(r"(?<=[\[: ])\d+[smhd]\b", lambda found: shorter(found[0]), rule["expr"])
            if "for" in rule:
                rule["for"] = shorter(rule["for"])
    return dict(rules)


@dataclass(frozen=True, slots=True)
class Target:
    """Target that Prometheus scrapes, with the labels that Prometheus gives it."""

    address: str
    path: str = "/metrics"
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Told:
    """Notifications of Alertmanager: when each came, by alert, labels and status."""

    times: dict[tuple[str, frozenset[tuple[str, str]], str], float] = field(default_factory=dict)

    def take(self, notification: Mapping[str, object]) -> None:
        """Note a notification: of those that an alert fires the first counts, of those that it is over the last."""
        alerts = notification["alerts"]
        assert isinstance(alerts, list)
        for alert in alerts:
            labels = frozenset((name, value) for name, value in alert["labels"].items() if name != "alertname")
            key = (alert["labels"]["alertname"], labels, alert["status"])
            if key not in self.times or alert["status"] == "resolved":
                self.times[key] = time.monotonic()
                say(f"{alert['status']:8} {key[0]}: {alert['annotations']['summary']}")

    def at(self, alert: str, status: str, labels: Mapping[str, str]) -> float | None:
        """Return when it was told of an alert with these labels, and perhaps others."""
        wanted = set(labels.items())
        found = [
            at for (name, of, now), at in list(self.times.items()) if (name, now) == (alert, status) and wanted <= of
        ]
        return min(found, default=None)


class Answers(ThreadingHTTPServer):
    """Answers scrapes with what a case says is published now, and takes the notifications of Alertmanager."""

    daemon_threads = True

    def __init__(self, cases: Sequence[Case], factor: float, told: Told) -> None:
        self.cases, self.factor, self.told = cases, factor, told
        self.asked: set[int] = set()
        self.begun: float | None = None
        super().__init__(("127.0.0.1", 0), _Answer)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def handle_error(self, request: object, client_address: object) -> None:
        """Prometheus hangs up on an answer that takes longer than the scaled interval."""

    def content(self, number: int) -> str | None:
        """Return what a worker of a case answers; None while it does not."""
        self.asked.add(number)
        series = self.cases[number].series
        passed = 0.0 if self.begun is None else (time.monotonic() - self.begun) * self.factor
        lines = []
        for name, values in series.items():
            value = values[min(int(passed / SCRAPE_SECONDS), len(values) - 1)]
            if name.startswith("up{") and value == 0:
                return None
            if value is not None and not name.startswith("up{"):
                lines.append(f"{name} {value!r}\n")
        return "".join(lines)


class _Answer(BaseHTTPRequestHandler):
    server: Answers

    def do_GET(self) -> None:
        content = self.server.content(int(self.path.rsplit("/", 1)[1]))
        data = (content or "").encode()
        self.send_response(200 if content is not None else 503)
        self.send_header("Content-Type", "text/plain; version=0.0.4")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_POST(self) -> None:
        self.server.told.take(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Scrapes are not logged."""


@contextmanager
def monitoring(folder: Path, factor: float, targets: Sequence[Target], webhook: int) -> Iterator[None]:
    """Run Prometheus and Alertmanager with the scaled rules, which notify the port `webhook`."""
    alertmanager = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")
    prometheus = shutil.which("prometheus")
    if alertmanager is None or prometheus is None:
        sys.exit("no Prometheus or no Alertmanager: apt-get install prometheus prometheus-alertmanager")
    ports = free_ports()
    interval = f"{round(max(SHORTEST, SCRAPE_SECONDS / factor) * 1000)}ms"
    evaluation = f"{round(SCRAPE_SECONDS / factor * 1000)}ms"
    lookback = f"{round(300 / factor * 1000)}ms"
    configuration = {
        "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": evaluation},
        "rule_files": ["alerts.yml"],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{ports[1]}"]}]}]},
        "scrape_configs": [
            {
                "job_name": "glasstream",
                "honor_labels": True,
                "static_configs": [
                    {"targets": [target.address], "labels": {"__metrics_path__": target.path, **target.labels}}
                    for target in targets
                ],
            }
        ],
    }
    routes = {
        "route": {
            "receiver": "here",
            "group_by": ["..."],
            "group_wait": "0s",
            "group_interval": "1s",
            "repeat_interval": "12h",
        },
        "receivers": [
            {"name": "here", "webhook_configs": [{"url": f"http://127.0.0.1:{webhook}/", "send_resolved": True}]}
        ],
    }
    for name, content in (
        ("prometheus.yml", configuration), ("alertmanager.yml", routes), ("alerts.yml", scaled(factor))
    ):  # fmt: skip
        (folder / name).write_text(json.dumps(content))
    commands = (
        [
            alertmanager, f"--config.file={folder}/alertmanager.yml", f"--storage.path={folder}/alertmanager",
            f"--web.listen-address=127.0.0.1:{ports[1]}", "--cluster.listen-address=",
        ],
        [
            prometheus, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/prometheus",
            f"--web.listen-address=127.0.0.1:{ports[0]}", f"--query.lookback-delta={lookback}",
        ],
    )  # fmt: skip
    started = []
    try:
        for command in commands:
            log = (folder / f"{Path(command[0]).name}.log").open("w")
            started.append(subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=folder))
        yield
    finally:
        for process in started:
            process.terminate()
            process.wait(30)


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an alert went: seconds of the run from its cause, and from the end of its cause; None if it did not."""

    alert: str
    what: str
    fired: float | None
    cleared: float | None

    @property
    def whole(self) -> bool:
        """Whether it fired and cleared."""
        return self.fired is not None and self.cleared is not None


def report(outcomes: Sequence[Outcome], factor: float) -> int:
    """Print the table; return the exit code."""

    def shown(seconds: float | None) -> str:
        return "never" if seconds is None else f"{seconds:.1f} s ({seconds * factor / 60:.1f} min)"

    print(f"durations of the rules divided by {factor:g}; in brackets as they are shipped")
    print(f"| {'alert':27} | {'fired after':19} | {'cleared after':19} | cause |")
    print(f"|{'-' * 29}|{'-' * 21}|{'-' * 21}|---|")
    for one in outcomes:
        print(f"| {one.alert:27} | {shown(one.fired):19} | {shown(one.cleared):19} | {one.what} |")
    failed = [one.alert for one in outcomes if not one.whole]
    print(f"{len(outcomes) - len(failed)} of {len(outcomes)} alerts fired and cleared")
    return 1 if failed else 0


def play(cases: Sequence[Case], factor: float, folder: Path) -> list[Outcome]:
    """Play cases, all at once."""
    told = Told()
    answers = Answers(cases, factor, told)
    targets = []
    for number, case in enumerate(cases):
        up = next((name for name in case.series if name.startswith("up{")), "")
        labels = dict(re.findall(r'(\w+)="([^"]*)"', up)) or {"instance": f"case-{number}"}
        labels.pop("job", None)
        targets.append(Target(f"127.0.0.1:{answers.port}", f"/case/{number}", labels))
    with monitoring(folder, factor, targets, answers.port):
        if not holds_within(MARGIN, lambda: len(answers.asked) == len(cases)):
            sys.exit(f"Prometheus did not scrape: see {folder}/prometheus.log")
        answers.begun = begun = time.monotonic()

        def time_of(case: Case, status: str) -> float | None:
            times = [told.at(case.alert, status, labels) for labels, _ in case.expected]
            if None in times:
                return None
            at = max(at for at in times if at is not None)
            # Over before its cause was: a scrape was lost.
            return None if status == "resolved" and at < begun + case.ends * 60 / factor else at

        longest = max(case.minutes for case in cases) * 60 / factor
        holds_within(longest + MARGIN, lambda: all(time_of(case, "resolved") is not None for case in cases))
    outcomes = []
    for case in cases:
        fired, cleared = time_of(case, "firing"), time_of(case, "resolved")
        outcomes.append(
            Outcome(
                case.alert,
                case.what,
                None if fired is None else fired - begun - case.begins * 60 / factor,
                None if cleared is None else cleared - begun - case.ends * 60 / factor,
            )
        )
    answers.shutdown()
    return outcomes


STREAM = "s"
SETTINGS = (
    "model.name=linear",
    "model.task=classification",
    "explain.methods=ipfi",
    "topics.events=1",
    "topics.requests=2",
    "limits.rows_ahead=500",
    "worker.session_seconds=6",
    "worker.heartbeat_seconds=1",
)
KILLED = "all explainers are killed, and started again"
WAITS = {
    "GlasstreamStageGone": {"stage": "explainer"},
    "GlasstreamWorkerDown": {"stage": "explainer"},
    "GlasstreamNothingExplained": {"stream": STREAM},
    "GlasstreamHoldingBack": {"partition": "0"},
}
"""Alerts that fire when all explainers are killed."""
TEXTS = {"GlasstreamValuesDropped": {"stream": STREAM}}
"""Alerts that fire when a feature that was a number arrives as text."""
LETTERS = {"GlasstreamDeadLetters": {"reason": "not_json"}}
"""Alerts that fire when a message is not JSON."""


class Feed:
    """A producer: a message of ten rows ten times a second, as long as it is on."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self._chance = random.Random(1)
        self.texts = False
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._end.wait(0.1):
            rows = []
            for _ in range(10):
                x = {name: round(self._chance.random(), 3) for name in "abc"}
                y = x["a"] + x["b"] > 1
                rows.append({"x": {**x, "c": "text"} if self.texts else x, "y": y})
            self._deployment.send(orjson.dumps(rows), key=STREAM.encode())

    def stop(self) -> None:
        self._end.set()
        self._thread.join()


def deploy(factor: float, folder: Path) -> list[Outcome]:
    """Provoke what alerts are about in a deployment, and mend it."""
    told = Told()
    answers = Answers([], factor, told)
    names = {
        "learner-1": "learner",
        "aggregator-1": "aggregator",
        "explainer-1": "explainer",
        "explainer-2": "explainer",
    }
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    targets = [Target(f"127.0.0.1:{ports[name]}", labels={"stage": stage}) for name, stage in names.items()]
    with local_kafka(log=say) as kafka:
        settings = load(assignments=[f"broker={kafka.bootstrap}", "prefix=alerts.", *SETTINGS])
        deployment = Deployment(settings, folder)

        def start(name: str) -> None:
            deployment.start(names[name], name, GLASSTREAM_HEALTH_PORT=str(ports[name]))

        def all_told(status: str, *alerts: Mapping[str, Mapping[str, str]]) -> bool:
            return all(told.at(name, status, labels) for group in alerts for name, labels in group.items())

        try:
            for name in names:
                start(name)
            feed = Feed(deployment)
            wait_for("rows are aggregated", lambda: deployment.aggregated(STREAM) > 1_000)
            with monitoring(folder, factor, targets, answers.port):
                time.sleep(20 * 60 / factor)  # what changes later is compared with what was before
                say(f"alerts of the healthy deployment: {sorted({name for name, _, _ in dict(told.times)})}")
                begun = time.monotonic()
                deployment.send(b"no event", key=STREAM.encode())
                feed.texts = True
                holds_within(10 * 60 / factor + MARGIN, lambda: all_told("firing", LETTERS, TEXTS))
                feed.texts = False
                killed = time.monotonic()
                for name in ("explainer-1", "explainer-2"):
                    deployment.kill(name)
                holds_within(20 * 60 / factor + MARGIN, lambda: all_told("firing", WAITS))
                healed = time.monotonic()
                for name in ("explainer-1", "explainer-2"):
                    start(name)
                holds_within(30 * 60 / factor + 2 * MARGIN, lambda: all_told("resolved", LETTERS, TEXTS, WAITS))
            feed.stop()
        finally:
            deployment.end()
    outcomes = []
    for group, what, since, to in (
        (LETTERS, "a message that is no JSON", begun, begun),
        (TEXTS, "texts where numbers came before", begun, killed),
        (WAITS, "all explainers are killed, and started again", killed, healed),
    ):
        for alert, labels in group.items():
            fired, cleared = told.at(alert, "firing", labels), told.at(alert, "resolved", labels)
            outcomes.append(
                Outcome(
                    alert,
                    what,
                    None if fired is None else fired - since,
                    None if cleared is None else cleared - to,
                )
            )
    answers.shutdown()
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--factor", type=float, help="what durations are divided by; 15, and 10 for a deployment")
    parser.add_argument("--only", default="", help="alerts, with commas between")
    parser.add_argument("--deployment", action="store_true", help="with workers on a Kafka of this machine")
    given = parser.parse_args()
    factor = given.factor or (10.0 if given.deployment else 15.0)
    with tempfile.TemporaryDirectory(prefix="glasstream-alerts-") as folder:
        if given.deployment:
            return report(deploy(factor, Path(folder)), factor)
        only = set(filter(None, given.only.split(",")))
        cases = [case for case in CASES if case.played and (not only or case.alert in only)]
        outcomes: dict[str, Outcome] = {}
        for attempt in range(ATTEMPTS):
            missing = [case for case in cases if case.alert not in outcomes or not outcomes[case.alert].whole]
            if not missing:
                break
            if attempt:
                say(f"again, in case Prometheus had no time to scrape: {', '.join(case.alert for case in missing)}")
            place = Path(folder) / str(attempt)
            place.mkdir()
            outcomes |= {outcome.alert: outcome for outcome in play(missing, factor, place)}
        return report(list(outcomes.values()), factor)


if __name__ == "__main__":
    sys.exit(main())
