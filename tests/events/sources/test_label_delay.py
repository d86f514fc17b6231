"""`--label-delay`: the same explanations at delay 0, and for any packing at others; what cannot be delayed is said."""

from collections import defaultdict
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from glasstream.app.command.cli import cli
from glasstream.app.configuration import load
from glasstream.base.errors import InputError
from glasstream.events.sources.delayed import LabelDelay
from glasstream.flow.reference import Reference
from glasstream_topics import events
from tests.support.late_labels import apart, delays
from tests.support.mixed_streams import BASE, ROWS, mixed

EXPLANATIONS = ("importance", "effects", "drift", "novelty")
NOVELTY = ["explain.methods=ipfi,isage,ipdp,novelty", "novelty.window=60", "novelty.stride=80", "novelty.delay=40",
           "novelty.held=0.4", "novelty.rate=0.1", "novelty.learners=3", "novelty.iterations=20"]  # fmt: skip


def published(log: list[dict], size: int, *assignments: str) -> dict[str, list[bytes]]:
    settings = load(assignments=[*BASE, *NOVELTY, *assignments])
    values = [(b"s", events.encode(log[n : n + size])) for n in range(0, len(log), size)]
    found = defaultdict(list)
    for topic, record in Reference(settings).run([*values, (b"s", events.FLUSH)]):
        found[topic].append(record)
    return dict(found)


@pytest.mark.parametrize(("model", "classes"), [("tree", 3), ("linear", 2), ("forest", 0)])
def test_at_delay_0_every_explanation_is_that_of_labels_that_came_with_their_events(model: str, classes: int) -> None:
    made = mixed(ROWS, classes=classes)
    together, late = published(made, 50, f"model.name={model}"), published(
        apart(made, delays(0, ROWS)), 50, f"model.name={model}"
    )  # fmt: skip
    assert "events.dead" not in late
    for topic in EXPLANATIONS:
        assert late[topic] == together[topic] != [], topic
    assert len(late["predictions"]) == len(together["predictions"]) == ROWS


@pytest.mark.parametrize("delay", [pytest.param(150, marks=pytest.mark.slow), "random:150"])
def test_how_they_are_packed_changes_no_record(delay: int | str) -> None:
    log = apart(mixed(ROWS, classes=2), delays(delay, ROWS))
    one = published(log, 1, "model.name=tree")
    assert {*EXPLANATIONS, "predictions"} == set(one)
    for size, rows in ((7, 500), (len(log), 500), (50, 3)):
        assert published(log, size, "model.name=tree", f"block.rows={rows}") == one
    last = orjson.loads(one["importance"][-1])
    assert last["row"] == ROWS - 1


def invoke(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, ["run", "--broker", "none", "--model", "tree", "--rows", "600", *arguments])
    if isinstance(result.exception, InputError):
        return 2, str(result.exception)
    return result.exit_code, result.output


def test_run_delays_labels(tmp_path: Path) -> None:
    outs = {}
    for name, size, delay in (
        ("plain", "100", None), ("0", "50", "0"), ("late", "100", "200"), ("single", "1", "200"),
        ("drawn", "100", "random:200"), ("again", "7", "random:200"),
    ):  # fmt: skip
        out = tmp_path / name
        asked = [] if delay is None else ["--label-delay", delay]
        code, said = invoke("--rows-per-message", size, "--out", str(out), *asked)
        assert code == 0, said
        outs[name] = {topic: (out / f"{topic}.jsonl").read_bytes() for topic in ("importance", "drift", "predictions")}
        assert not (out / "events.dead.jsonl").read_bytes()
    for one, other, topics in (
        ("plain", "0", ("importance", "drift")),
        ("late", "single", ("importance", "drift", "predictions")),
        ("drawn", "again", ("importance", "drift", "predictions")),
    ):
        assert all(outs[one][topic] == outs[other][topic] for topic in topics), (one, other)
    assert outs["late"]["importance"] == outs["plain"]["importance"] != outs["drawn"]["importance"]
    assert outs["late"]["predictions"] != outs["plain"]["predictions"], "predicted by models that had learned less"
    assert outs["late"]["predictions"].count(b"\n") == 600


@pytest.mark.parametrize("text", ["", "-1", "random", "random:", "random:x", "1.5", "half"])
def test_what_is_no_delay_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="--label-delay: expected N or random:N"):
        LabelDelay.parse(text, 100)


def test_a_delay_that_no_label_survives_is_refused_and_the_way_out_said() -> None:
    assert LabelDelay.parse("99", 100) == LabelDelay(99) and LabelDelay.parse("random:5", 100) == LabelDelay(5, True)
    code, said = invoke("--label-delay", "random:10000")
    assert code == 2 and "labels.window = 10,000" in said and "--set labels.window=10001" in said
