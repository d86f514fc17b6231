"""`glasstream incidents`, and the incidents at the end of `glasstream run`."""

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
import orjson
import pytest
from click.testing import CliRunner

from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.app.command.cli import cli
from glasstream.base.errors import SettingsError, TopicError
from glasstream.flow.aggregator import incidents as aggregated
from glasstream_topics import incidents, segments, watching
from glasstream_topics.incidents import Incident
from tests.support.counting_watch import CountingWatch
from tests.support.golden_records import checked_in
from tests.support.writing import Writer

TIME = "2026-01-01 00:00 UTC"
GOLDEN = incidents.decode(checked_in("incidents.v3.json"))


def incident(stream: str, number: int, status: str = "open", **changes: object) -> bytes:
    return incidents.encode(msgspec.structs.replace(GOLDEN, stream=stream, incident=number, status=status, **changes))


@pytest.fixture
def broker(embedded: EmbeddedKafka) -> Iterator[EmbeddedKafka]:
    embedded.create_topic("test.incidents", 2)
    writer = Writer(embedded.bootstrap, "test.incidents")
    writer.send(incident("loans", 1, epoch=0), incident("loans", 1), b"no record", key=b"loans")
    writer.send(incident("loans", 2, epoch=1, features=[], loss_before=None), key=b"loans")
    writer.send(incident("loans", 1, epoch=1), incident("loans", 1, "over", epoch=1), key=b"loans")
    writer.send(incident("bikes", 1, verdict="later"), key=b"bikes")
    yield embedded


def listed(broker: EmbeddedKafka, *options: str) -> tuple[str, str]:
    arguments = ["incidents", "--broker", broker.bootstrap, "--prefix", "test.", *options]
    result = CliRunner().invoke(cli, arguments, standalone_mode=False, catch_exceptions=False)
    return result.stdout, result.stderr


def test_the_records_are_the_newest_of_each_incident_in_the_newest_epoch(broker: EmbeddedKafka) -> None:
    said, errors = listed(broker, "--json")
    assert said.splitlines() == [
        incident("bikes", 1, verdict="later").decode(),
        incident("loans", 1, "over", epoch=1).decode(),
        incident("loans", 2, epoch=1, features=[], loss_before=None).decode(),
    ]
    assert errors == "skipped records of test.incidents that cannot be read: 1\n"
    assert listed(broker, "--json", "--stream", "bikes")[0].splitlines() == said.splitlines()[:1]


def test_the_table_has_a_line_for_each_incident_and_a_sentence_follows(broker: EmbeddedKafka) -> None:
    lines = listed(broker)[0].splitlines()
    cells = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines if line.startswith("│")]
    features = "age (scaled), car (swapped), salary"
    assert cells == [
        ["bikes", "1", "open", "row 1,200", TIME, "later", features, "0.1250 → 0.5000 (brier)"],
        ["loans", "1", "over", "row 1,200", TIME, "feature broken", features, "0.1250 → 0.5000 (brier)"],
        ["loans", "2", "open", "row 1,200", TIME, "feature broken", "–", "– → 0.5000 (brier)"],
    ]
    suggestion = "Suggestion: repair the source of the inputs: age (25 % of the rise of the loss is recovered)."
    assert lines[-3:] == [f"{name}: {GOLDEN.summary} {suggestion}" for name in ("bikes 1", "loans 1", "loans 2")]
    assert listed(broker, "--stream", "others")[0] == "no incidents\n"


def test_a_missing_topic_and_a_broker_of_a_run_are_refused(embedded: EmbeddedKafka) -> None:
    with pytest.raises(TopicError, match=r"expected topic test\.incidents"):
        listed(embedded)
    with pytest.raises(SettingsError, match="broker: expected HOST:PORT"):
        CliRunner().invoke(cli, ["incidents"], standalone_mode=False, catch_exceptions=False)


def run(tmp_path: Path, *options: str) -> tuple[list[str], list[Incident]]:
    arguments = [
        "run", "--broker", "none", "--rows", "400", "--model", "linear", "--out", str(tmp_path), "--set",
        "explain.reservoir=20", "--set", "drift.grace=20", "--set", "drift.delta=0.9", *options,
    ]  # fmt: skip
    result = CliRunner().invoke(cli, arguments, standalone_mode=False, catch_exceptions=False)
    file = tmp_path / "incidents.jsonl"
    return result.stdout.splitlines(), [incidents.decode(line) for line in file.read_bytes().splitlines()]


def test_a_run_ends_with_a_sentence_for_each_incident(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregated, "IncidentWatch", CountingWatch)
    said, found = run(tmp_path)
    newest = {one.incident: one for one in found}
    assert len(newest) == 9
    at = said.index(f"incident 1 (over): {newest[1].summary}")
    assert said[at : at + 9] == [f"incident {n} ({one.status}): {one.summary}" for n, one in newest.items()]
    alarms = [orjson.loads(line) for line in (tmp_path / "drift.jsonl").read_bytes().splitlines()]
    plural = "" if len(alarms) == 1 else "s"
    assert alarms and said[at + 9] == f"{len(alarms)} drift alarm{plural} in the topic drift"


def test_a_run_without_incidents_says_so_and_tells_the_alarms_only_if_nobody_watches(tmp_path: Path) -> None:
    said, found = run(tmp_path, "--set", "drift.budget=1e-9")
    assert not found and "incidents: none" in said
    said, found = run(tmp_path, "--set", "drift.budget=0")
    assert not found and not any("incident" in line for line in said)
    assert any(line.startswith("drift alarms: ") and "rows" in line for line in said)


def watching_of(stream: str, **changes: object) -> bytes:
    record = watching.decode(checked_in("watching.v1.json"))
    return msgspec.json.encode(msgspec.structs.replace(record, stream=stream, **changes))


def test_watching_lists_the_newest_record_of_each_stream(embedded: EmbeddedKafka) -> None:
    embedded.create_topic("test.watching", 1)
    assert "no stream is watched yet" in listed(embedded, "--watching")[0]
    writer = Writer(embedded.bootstrap, "test.watching")
    writer.send(watching_of("loans", row=999), b"no record", watching_of("loans"), watching_of("loans", epoch=0))
    writer.send(watching_of("bikes", unlabelled=True, label=None, row=7))
    said, errors = listed(embedded, "--watching", "--json")
    found = [watching.decode(line.encode()) for line in said.splitlines()]
    assert [(one.stream, one.epoch, one.row) for one in found] == [("bikes", 1, 7), ("loans", 1, 4_999)]
    assert errors == "skipped records of test.watching that cannot be read: 1\n"
    lines = listed(embedded, "--watching")[0].splitlines()
    assert lines[0] == "bikes: events without labels, as of event 7" and "loans: as of row 4,999" in lines
    cells = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines if line.startswith("│")]
    assert cells[2:] == [
        ["(label)", "watched", "4,600", "17", "3", "0.013", "–", "3.1 % / 25 % / ±1.25"],
        ["age", "watched", "4,600", "17", "3", "0.013", "6.2 % / – / ±2.5", "3.1 % / 25 % / ±1.25"],
        ["car", "muted", "4,600", "17", "3", "0.013", "–", "–"],
    ]


def segments_of(stream: str, **changes: object) -> bytes:
    record = segments.decode(checked_in("segments.v1.json"))
    return msgspec.json.encode(msgspec.structs.replace(record, stream=stream, **changes))


def test_segments_lists_the_newest_record_of_each_stream(embedded: EmbeddedKafka) -> None:
    embedded.create_topic("test.segments", 1)
    assert "no segments have been tested yet" in listed(embedded, "--segments")[0]
    writer = Writer(embedded.bootstrap, "test.segments")
    writer.send(segments_of("loans", row=999), b"no record", segments_of("loans"), segments_of("loans", epoch=0))
    writer.send(segments_of("bikes", segments=[]))
    said, errors = listed(embedded, "--segments", "--json")
    found = [segments.decode(line.encode()) for line in said.splitlines()]
    assert [(one.stream, one.epoch, one.row) for one in found] == [("bikes", 1, 7_999), ("loans", 1, 7_999)]
    assert errors == "skipped records of test.segments that cannot be read: 1\n"
    text = " ".join(listed(embedded, "--segments")[0].split())
    assert text.startswith("bikes: no segment stands out as of row 7,999") and "loans: 1 weak segment as of" in text
    assert "region = north and hour >= 15: loss 0.5 instead of 0.25 (+0.125 to +0.375), 12 % of the rows" in text
    with pytest.raises(click.UsageError, match="--watching or --segments"):
        listed(embedded, "--segments", "--watching")
