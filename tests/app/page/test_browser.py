"""The page in a real browser: what is drawn is what is on the topics, and a person finds it.

Two tests, each of many sights: a run, or a deployment, is what costs.
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import orjson
from confluent_kafka import Producer
from playwright.sync_api import Browser

import glasstream_topics
from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.kafka.transport.connection import Connection
from glasstream_topics import attributions
from tests.support.browsing import Viewing, viewing
from tests.support.deployment import ROOT
from tests.support.page_records import (
    attribution_record,
    drift_record,
    effect_record,
    importance_record,
    incident_record,
    novelty_record,
    prediction_record,
)
from tests.support.waiting import wait_for


@contextmanager
def command(log: Path, *arguments: str) -> "Iterator[subprocess.Popen[bytes]]":
    """`glasstream ARGUMENTS` in a process of its own, and what it says in `log`."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "glasstream.app.command.main", *arguments],
            cwd=ROOT,
            env={**os.environ},
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def said(log: Path, process: "subprocess.Popen[bytes]", pattern: str) -> str:
    """Wait until the output matches the pattern, and return its group."""
    found: list[str] = []

    def look() -> bool:
        found.extend(re.findall(pattern, log.read_text()))
        if process.poll() is not None and not found:
            raise AssertionError(f"{pattern!r} was not said: {log.read_text()}")
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.1)
        return bool(found)

    wait_for(f"{pattern} in {log}", look)
    return found[0]


def records(folder: Path, topic: str) -> list[dict[str, Any]]:
    return [orjson.loads(line) for line in (folder / f"{topic}.jsonl").read_bytes().splitlines()]


def drawn_importance_is_the_topics(view: Viewing, topic: list[dict[str, Any]], method: str) -> None:
    published = [record for record in topic if record["method"] == method]
    drawn = view.drawn("importance")
    assert drawn["x"] == [record["seq"] for record in published]
    features = [label for label in drawn if label != "x" and not label.endswith((" low", " high"))]
    assert len(features) == 8
    for feature in features:
        for label, column in ((feature, "value"), (f"{feature} low", "low"), (f"{feature} high", "high")):
            assert drawn[label] == [record["features"][feature][column] for record in published], label
    newest = published[-1]["features"]
    ranking = view.page.locator("#ranking tbody tr").evaluate_all("rows => rows.map(row => row.dataset.name)")
    assert ranking == sorted(newest, key=lambda name: newest[name]["rank"])


def drawn_means_are_the_topics(view: Viewing, chart: str, label: str, values: dict[int, float]) -> None:
    """Each point stands at the last event of its bin, and is the mean of the numbers in there."""
    drawn = view.drawn(chart)
    begin = 0
    assert drawn["x"][-1] == max(values) and len(drawn["x"]) > 10
    for end, mean in zip(drawn["x"], drawn[label], strict=True):
        inside = [value for seq, value in values.items() if begin <= seq <= end]
        assert abs(mean - sum(inside) / len(inside)) < 1e-12
        begin = end + 1


def test_a_run_is_watched(chromium: Browser, tmp_path: Path) -> None:
    out, log = tmp_path / "out", tmp_path / "run.log"
    options = {
        "explain.methods": "ipfi,isage,ipdp,attributions,novelty",
        "model.name": "tree",
        "page.port": "0",
        "novelty.window": "500",
        "novelty.delay": "500",
        "novelty.stride": "1000",
    }
    given = [part for key, value in options.items() for part in ("--set", f"{key}={value}")]
    with command(log, "run", "--page", "--hold", "--rows", "3000", "--at", "1500", "--out", str(out), *given) as run:
        address = said(log, run, r"page: (http://127\.0\.0\.1:\d+/)")
        with viewing(chromium, address) as view:
            view.open("stream=nobody")
            view.wait("document.querySelector('#importance-chart').textContent.includes('Waiting for the stream')")

            view.open()
            view.wait("glasstream.connected && glasstream.drawn.importance")
            # A mark stands at the first alarm of its change, and a later alarm can join an earlier change to it.
            view.wait("glasstream.changes.flatMap(change => change.alarms).some(alarm => alarm.seq > 1500)")
            view.wait("document.querySelector('#marks button')")

            said(log, run, "(the page stays open until you press Ctrl-C)")
            importance, alarms = records(out, "importance"), records(out, "drift")
            view.wait("glasstream.known.quality?.last_seq === 2999 && glasstream.known.novelty?.last_seq === 2999")
            view.wait("last => glasstream.known.importance?.seq.at(-1) === last", importance[-1]["seq"])
            drawn_importance_is_the_topics(view, importance, view.get("glasstream.known.importance.method"))
            losses = {one["seq"]: one["loss"] for one in records(out, "predictions") if one["loss"] is not None}
            drawn_means_are_the_topics(view, "loss", "loss", losses)
            flags = {one["seq"]: float(one["flagged"]) for one in records(out, "novelty")}
            drawn_means_are_the_topics(view, "novelty", "novelty rate", flags)
            view.wait("count => glasstream.changes.flatMap(change => change.alarms).length === count", len(alarms))
            marked = view.get("glasstream.changes.flatMap(change => change.alarms)")
            place = lambda one: (one["seq"], one["signal"], one["feature"] or "", one["method"] or "")  # noqa: E731
            assert sorted(map(place, marked)) == sorted(map(place, alarms))

            for method in ("isage", "ipfi"):
                view.page.select_option("#method", method)
                view.wait("method => glasstream.known.importance?.method === method", method)
                view.wait("glasstream.drawn.importance?.x.length === glasstream.known.importance.seq.length")
                drawn_importance_is_the_topics(view, importance, method)

            a_mark_opens_the_curves(view, alarms)
            effects_move_with_the_slider(view, records(out, "effects"))
            events_are_explained(view, (out / "attributions.jsonl").read_bytes().splitlines(), flags)
            the_keyboard_reaches_it(view)
            the_address_holds_the_view(chromium, view)
            it_fits_screens_of_all_sizes(view)
            assert view.complaints == []
        run.send_signal(signal.SIGINT)
        assert run.wait(90) == 0


def a_mark_opens_the_curves(view: Viewing, alarms: list[dict[str, Any]]) -> None:
    """By the keyboard: the mark of the most alarms, then each alarm of its change."""
    counts = view.page.locator("#marks button").evaluate_all(
        "marks => marks.map(mark => Number(mark.textContent) || 1)"
    )
    view.page.locator("#marks button").nth(counts.index(max(counts))).focus()
    view.page.keyboard.press("Enter")
    view.wait("glasstream.view.alarm !== ''")
    listed = view.page.locator("#alarms tbody button")
    assert listed.count() > 1
    for at in range(listed.count()):
        listed.nth(at).click()
        row, signal_, feature, method = view.get("glasstream.view.alarm").split("~")
        (alarm,) = (
            one
            for one in alarms
            if (str(one["row"]), one["signal"], one["feature"] or "", one["method"] or "")
            == (row, signal_, feature, method)
        )
        if alarm["curve_before"] is None:
            continue
        view.wait("glasstream.drawn.effect?.series[2].label === 'before'")
        view.wait("text => document.querySelector('#effect-caption').textContent.includes(text)", f"{alarm['seq']:,}")
        drawn = view.drawn("effect")
        for label, curve in (("before", alarm["curve_before"]), ("after", alarm["curve_after"])):
            points = {x: y for x, y in zip(drawn["x"], drawn[label], strict=True) if y is not None}
            assert points == dict(zip(curve["grid"], curve["curve"], strict=True)), label


def effects_move_with_the_slider(view: Viewing, effects: list[dict[str, Any]]) -> None:
    view.page.select_option("#effect", "age")
    view.wait("glasstream.known.effect?.feature === 'age' && glasstream.drawn.effect?.series[2].label === 'then'")
    published = {one["seq"]: one for one in effects if one["feature"] == "age"}
    view.wait("seq => glasstream.known.effect.curves.at(-1)?.seq === seq", max(published))
    view.page.locator("#then").focus()
    for key in ("End", "ArrowLeft", "Home"):
        view.page.keyboard.press(key)
        then = view.get("glasstream.view.then")
        view.wait("then => document.querySelector('#then-text').textContent.replace(/\\D/g, '') === then", then)
        drawn = view.drawn("effect")
        first, last = published[int(then)], published[max(published)]
        ends = (
            ("now low", [value - margin for value, margin in zip(last["curve"], last["margin"], strict=True)]),
            ("now high", [value + margin for value, margin in zip(last["curve"], last["margin"], strict=True)]),
        )
        for label, grid, values in (
            ("then", first["grid"], first["curve"]),
            ("now", last["grid"], last["curve"]),
            *((label, last["grid"], values) for label, values in ends),
        ):
            points = {x: y for x, y in zip(drawn["x"], drawn[label], strict=True) if y is not None}
            assert points == dict(zip(grid, values, strict=True)), label
    assert int(then) == min(published)


def events_are_explained(view: Viewing, lines: list[bytes], flags: dict[int, float]) -> None:
    """The newest events are listed; one is found by its number, opened by the keyboard, and told as its record does."""
    published = {one.seq: one for one in map(attributions.decode, lines)}
    newest = [str(seq) for seq in sorted(published, reverse=True)]
    view.wait("last => glasstream.known.explained?.rows.at(-1)[0] === last", int(newest[0]))
    listed = "[...document.querySelectorAll('#explained tbody button')].map(one => one.dataset.id)"
    assert view.get(f"{listed}.slice(0, 100)") == newest[:100]
    record = published[int(newest[7])]
    view.page.locator("#find-event").fill(f"{record.seq:,}")
    view.wait(f"{listed}.length === 1")
    button = view.page.locator("#explained tbody button")
    button.focus()
    view.page.keyboard.press("Enter")
    view.wait("seq => glasstream.known.opened?.row[0] === seq", record.seq)
    assert view.page.locator("#opened-sentence").inner_text() == record.sentence()
    assert view.page.locator("#opened-origin").inner_text() == record.origin()
    bars = view.page.locator("#waterfall tr")
    assert bars.locator(".words").all_inner_texts() == [step.words for step in record.steps()]
    ends = view.get(
        "[...document.querySelectorAll('#waterfall .up, #waterfall .down')].map(one => "
        "[one.className, one.getBoundingClientRect().left, one.getBoundingClientRect().right])"
    )
    assert all(
        abs((left if kind == "down" else right) - (after_right if after == "down" else after_left)) < 3.0
        for (kind, left, right), (after, after_left, after_right) in pairwise(ends)
    ), ends
    view.page.locator("#find-event").fill("")
    view.page.select_option("#predicted", record.output)
    view.wait("output => glasstream.view.predicted === output", record.output)
    of_class = [str(seq) for seq in sorted(published, reverse=True) if published[seq].output == record.output]
    assert view.get(f"{listed}.slice(0, 50)") == of_class[:50]
    view.open("event=5")
    view.wait("document.querySelector('#opened-caption').textContent.includes('glasstream explain --seq 5')")
    view.page.go_back()
    view.wait("seq => glasstream.known.opened?.row[0] === seq", record.seq)
    view.page.select_option("#predicted", "")
    view.page.select_option("#only", "unfamiliar")
    view.wait("glasstream.view.only === 'unfamiliar'")
    kept = view.get("glasstream.known.explained.rows.map(([seq]) => seq)")
    assert view.get(listed) == [str(seq) for seq in sorted(kept, reverse=True) if flags[seq]]
    view.page.select_option("#only", "")


def the_keyboard_reaches_it(view: Viewing) -> None:
    """Every control has a name; the arrow keys read a chart."""
    nameless = view.page.locator("button, select, input, [tabindex='0']").evaluate_all(
        "all => all.filter(one => one.offsetParent && !(one.getAttribute('aria-label') || one.labels?.length "
        "|| one.textContent.trim())).map(one => one.outerHTML)"
    )
    assert nameless == []
    view.page.locator("#importance-chart").focus()
    view.page.keyboard.press("Home")
    first = view.get("glasstream.known.importance.seq[0]")
    view.wait("text => document.querySelector('#ranking-when').textContent === text", f"at event {first:,}")
    view.page.keyboard.press("/")
    view.page.keyboard.type("sal")
    view.wait("document.querySelectorAll('#ranking tbody tr').length === 1")
    view.page.keyboard.press("Escape")
    view.page.locator("#find").fill("")


def the_address_holds_the_view(browser: Browser, view: Viewing) -> None:
    view.page.get_by_text("stacked", exact=True).click()
    view.page.select_option("#window", "1000")
    view.page.get_by_label("keep zipcode drawn").check()
    view.wait("'zipcode' in (glasstream.known.importance?.features ?? {})")
    address = view.page.url
    with viewing(browser, view.address, color_scheme="dark") as other:
        other.open(address.partition("#")[2])
        other.wait("glasstream.drawn.importance && glasstream.drawn.effect")
        assert other.get("glasstream.view") == view.get("glasstream.view")
        view.wait("glasstream.drawn.importance?.series.some(one => one.label === 'zipcode')")
        assert other.get("glasstream.drawn.importance") == view.get("glasstream.drawn.importance")
        assert other.get("glasstream.drawn.importance.range") == [1999, 2999]
        assert other.get("document.documentElement.dataset.theme") == "dark"  # as the system says
        other.page.get_by_label("Use light colours").click()
        assert other.get("document.documentElement.dataset.theme") == "light" and "theme=light" in other.page.url
        assert other.complaints == []


def it_fits_screens_of_all_sizes(view: Viewing) -> None:
    """Nothing is wider than the screen, no chart covers what is below it, and the head takes less than a quarter."""
    for width, height in ((360, 740), (390, 844), (820, 1180), (1280, 800)):
        view.page.set_viewport_size({"width": width, "height": height})
        view.page.reload()
        view.wait("glasstream.drawn.importance && glasstream.drawn.effect")
        view.wait(
            "[...document.querySelectorAll('.chart')].every(place => "
            "(place.querySelector('canvas')?.offsetHeight ?? 0) <= place.offsetHeight)"
        )
        page, screen, head = view.get(
            "[document.documentElement.scrollWidth, innerWidth, document.querySelector('header').offsetHeight]"
        )
        assert page <= screen == width and head < height / 4


def test_a_deployment_of_300_features_whose_page_restarts(
    embedded: EmbeddedKafka, prefix: str, chromium: Browser, tmp_path: Path
) -> None:
    names = [f"sensor_{at:03d}" for at in range(300)]
    producer = Producer(Connection(embedded.bootstrap).producer())
    for topic in glasstream_topics.ALL:
        embedded.create_topic(topic.full_name(prefix), 1)

    def put(topic: str, *values: bytes, stream: str = "wide") -> None:
        for value in values:
            producer.produce(f"{prefix}{topic}", value, stream.encode())
        assert producer.flush(30.0) == 0

    def wide(row: int) -> bytes:
        return importance_record(
            row, {name: (300 - at) / 300 + row / 1e5 for at, name in enumerate(names)}, stream="wide"
        )

    with ExitStack() as stack:
        put("importance", *(wide(row) for row in range(99, 5_000, 100)))
        put("effects", *(effect_record(4_999, name, [0.1, 0.5, 0.2], stream="wide") for name in names))
        put("drift", drift_record(2_999, "sensor_250", 0.5, 0.125, stream="wide"))
        put("incidents", incident_record(1_500, 1, status="over", verdict="data_moved", stream="wide"))
        put("incidents", incident_record(2_900, 2, summary=f"broken: {'x' * 200}", stream="wide"))
        put(
            "predictions",
            *(prediction_record(seq, 9e6 * (seq % 4 == 0), stream="wide", ts=_at(seq)) for seq in range(1_000)),
        )
        put("novelty", *(novelty_record(seq, flagged=seq % 10 == 0, stream="wide") for seq in range(1_000)))
        markup = "<img src=x onerror=\"document.title='run'\">"
        put("attributions", attribution_record(999, {markup: 0.25, "x" * 500: 0.125}, output=markup, stream="wide"))
        put("importance", importance_record(99, {"a": 0.5}, stream="narrow"), stream="narrow")
        right = (prediction_record(seq, 0.0, target="yes", stream="narrow") for seq in range(2))
        put("predictions", *right, prediction_record(2, 0.0, prediction="no", stream="narrow"), stream="narrow")
        for number in range(60):
            put("predictions", prediction_record(number, None, stream=f"other {number}"), stream=f"other {number}")
        put("importance", b"{}")
        producer.produce(f"{prefix}events.dead", b"?", b"wide", headers={"reason": b"not_json"})
        producer.flush(30.0)

        one = ("--set", "topics.events=1", "--set", "page.streams=1")
        arguments = ("page", "--broker", embedded.bootstrap, "--prefix", prefix, *one)
        with command(tmp_path / "first.log", *arguments, "--port", "0") as first:
            address = said(tmp_path / "first.log", first, r"page: (http://127\.0\.0\.1:\d+/)")
            view = stack.enter_context(viewing(chromium, address))
            view.open()
            all_streams_come_first(view)
            view.wait("glasstream.known?.reading === null && glasstream.drawn.importance")
            several_hundred_features_are_usable(view, names)
            incidents_come_first_with_their_evidence(view)
            large_numbers_have_room(view)
            time_axes_can_show_clock_time(view)
            names_are_no_markup(view, markup)
            assert view.page.locator("#status").inner_text().replace("\n", " ").endswith("rejected input 1")
            assert "1 records cannot be read" in view.page.locator("#notice").inner_text()
            first.kill()
            view.wait("!glasstream.connected")
            assert "does not answer" in view.page.locator("#notice").inner_text()
            assert view.drawn("importance")["x"][-1] == 4_999  # what was known stays
        put("importance", wide(5_099))
        port = address.rsplit(":", 1)[1].rstrip("/")
        with command(tmp_path / "second.log", *arguments, "--port", port):
            view.wait("glasstream.connected && glasstream.drawn.importance?.x.at(-1) === 5099")
            view.page.go_back()
            view.wait("glasstream.known.rows?.length === 62")
            view.page.locator("#streams a").get_by_text("narrow", exact=True).click()
            view.wait("glasstream.known.stream === 'narrow' && 'a' in (glasstream.known.importance?.features ?? {})")
            assert view.page.locator("#axis option").nth(1).inner_text() == "clock time (events have no ts)"
            assert view.page.locator("#notice").inner_text().count("have no ts") == 0
            view.open("stream=narrow&axis=clock")
            view.wait("document.querySelector('#notice').textContent.includes('show event numbers in place of clock')")
            lost = [one for one in view.complaints if "ERR_" not in one]
            assert lost == []


def all_streams_come_first(view: Viewing) -> None:
    """A row each, sorted and searched, on every screen; a click opens the stream, whose history is read back."""
    view.wait("glasstream.known?.reading === null && glasstream.known.rows?.length === 62")
    rows = view.page.locator("#streams tbody tr")
    texts = rows.nth(0).locator("td").all_inner_texts()
    assert texts[0] == "wide" and texts[1].startswith("▲ 0.0 % always “no” 100.0 %")
    assert texts[2].startswith("sensor_000 1.05") and texts[3].startswith("▲ open feature broken")
    assert texts[4].startswith("row 2,850, ") and texts[6] == "1,000"
    assert view.page.locator("main").is_hidden() and view.page.locator("header label").first.is_hidden()
    total = view.page.locator("#streams-total").inner_text()
    assert total == "62 streams · 1 with an open incident · 1 no better than a baseline"
    for width in (360, 820, 1280, 1600):
        view.page.set_viewport_size({"width": width, "height": 900})
        assert view.get("document.documentElement.scrollWidth") <= width
    view.page.locator("#streams th button[data-column=stream]").focus()
    view.page.keyboard.press("Enter")
    view.wait("document.querySelector('#streams tbody tr').dataset.stream === 'narrow'")
    view.page.keyboard.press("Enter")
    view.wait("document.querySelector('#streams tbody tr').dataset.stream === 'wide'")
    assert view.page.locator("th[aria-sort=descending]").inner_text() == "stream"
    view.page.keyboard.press("/")
    view.page.keyboard.type("OTHER 1")
    view.wait("document.querySelectorAll('#streams tbody tr').length === 11")
    view.page.reload()  # the address keeps the order and the search
    view.wait("document.querySelectorAll('#streams tbody tr').length === 11")
    view.page.locator("#search").fill("wide")
    view.wait("document.querySelectorAll('#streams tbody tr').length === 1")
    view.page.locator("#streams a").click()
    view.wait("glasstream.known.stream === 'wide' && glasstream.known.epoch === 0")
    view.page.locator("#all").click()
    view.wait("document.querySelectorAll('#streams tbody tr').length === 1")
    view.page.locator("#search").fill("")
    view.wait("document.querySelectorAll('#streams tbody tr').length === 62")
    view.page.locator("#streams a").get_by_text("wide", exact=True).click()
    view.wait("glasstream.known.stream === 'wide'")


def several_hundred_features_are_usable(view: Viewing, names: list[str]) -> None:
    drawn = [one for one in view.drawn("importance") if one in names]
    assert drawn == names[:8]
    rows = view.page.locator("#ranking tbody tr")
    assert rows.count() == 100 and "200 more" in view.page.locator("#ranking-more").inner_text()
    view.page.locator("#find").fill("sensor_29")
    view.wait("document.querySelectorAll('#ranking tbody tr').length === 10")
    view.page.get_by_label("keep sensor_299 drawn").check()
    view.page.select_option("#top", "3")
    view.wait(
        "Object.keys(glasstream.known.importance?.features ?? {}).join() "
        "=== 'sensor_000,sensor_001,sensor_002,sensor_299'"
    )
    view.page.get_by_label("sensor_295: show its effect").click()
    view.wait("glasstream.known.effect?.feature === 'sensor_295'")
    widths = view.get(
        "[document.documentElement.scrollWidth, innerWidth, document.documentElement.scrollHeight, innerHeight]"
    )
    assert widths[0] <= widths[1] and widths[2] <= widths[3]  # one screen


def incidents_come_first_with_their_evidence(view: Viewing) -> None:
    """The open one first; its evidence and alarms by the keyboard; what is acknowledged or muted stays so."""
    lines = view.page.locator("#incident-list .line")
    assert lines.count() == 2 and view.page.locator("#calm").is_hidden()
    assert "▲ open" in lines.nth(0).inner_text() and "broken: xxx" in lines.nth(0).inner_text()
    assert "→ repair the source of the inputs: salary" in lines.nth(0).inner_text()
    assert "✓ over" in lines.nth(1).inner_text() and "→" not in lines.nth(1).inner_text()
    top = "document.querySelector('#incidents').getBoundingClientRect().bottom"
    assert view.get(f"{top} <= document.querySelector('main').getBoundingClientRect().top")
    standing = view.page.locator("#standing").inner_text()
    assert standing.startswith("The model is no better than a baseline") and "always “no” 100.0 %" in standing

    lines.nth(0).focus()
    view.page.keyboard.press("Enter")
    view.wait("document.querySelectorAll('#incident-list .details tbody tr').length === 4")
    assert view.get("[glasstream.view.incident, document.activeElement.dataset.id]") == ["2", "2"]
    details = view.page.locator("#incident-list .details").inner_text()
    for part in (
        "42.5",
        "80,123 → 80.1M",
        "– → 0.75",
        "0.125 → 0.5",
        "salary: multiplied by 1,000",
        "Repair the source",
    ):
        assert part in details, part
    assert "ops/docs/incidents.md#feature_broken" in details
    view.page.get_by_role("button", name="show 1 below").click()
    view.wait("glasstream.view.alarm.startsWith('2999~')")
    assert "incident 2" in view.page.locator("#groups").inner_text()

    view.page.get_by_role("button", name="Acknowledge").click()
    view.wait("document.querySelector('#incident-list .line').textContent.includes('acknowledged')")
    mute = view.page.get_by_role("button", name="Mute “feature broken”")
    assert "in this browser only" in (mute.get_attribute("title") or "")
    mute.click()
    view.wait("document.querySelector('#incident-list .muted')?.textContent.includes('1 incident, 1 open')")
    view.page.reload()
    view.wait("document.querySelector('#incident-list .muted')")
    assert lines.count() == 1
    view.page.get_by_role("button", name="Unmute").click()
    view.wait("document.querySelectorAll('#incident-list .line').length === 2")
    assert "acknowledged" in lines.nth(0).inner_text()
    for width in (360, 1600):  # also with the evidence
        view.page.set_viewport_size({"width": width, "height": 900})
        assert view.get("document.documentElement.scrollWidth") <= width
        inside, table = view.get(
            "[document.querySelector('#incident-list .details'), document.querySelector('#incident-list table')]"
            ".map(one => one.getBoundingClientRect().right)"
        )
        assert table <= inside


def _at(seq: int) -> int:
    """Time of an event: one a minute, and after 500 of them a day of silence."""
    return 1_767_225_600_000 + 60_000 * seq + 86_400_000 * (seq >= 500)


def time_axes_can_show_clock_time(view: Viewing) -> None:
    """By the keyboard; what is drawn stays at its event, and a mark at its change."""
    seqs, marks = view.drawn("loss")["x"], "[...document.querySelectorAll('#marks button')].map(one => one.dataset.seq)"
    marked = view.get(marks)
    view.page.select_option("#axis", "clock")
    view.wait("glasstream.drawn.loss.x[0] > 1e12")
    assert view.drawn("loss")["x"] == [_at(seq) for seq in seqs]
    assert view.get("glasstream.drawn.importance.range") == view.get("glasstream.drawn.loss.range")
    assert view.get(marks) == marked and "axis=clock" in view.page.url
    view.page.select_option("#axis", "")
    view.wait("glasstream.drawn.loss.x[0] < 1e12")


def names_are_no_markup(view: Viewing, markup: str) -> None:
    """Names of features and classes, however long, are text of the page, which stays as wide as the screen."""
    view.wait("glasstream.known.opened?.row[0] === 999")
    assert f"{markup} = 19.5" in view.page.locator("#waterfall").inner_text()
    assert "probability of <img" in view.page.locator("#opened-sentence").inner_text()
    assert (
        "999" in view.page.locator("#explained").inner_text() and "2026" in view.page.locator("#explained").inner_text()
    )
    assert view.get("[document.querySelectorAll('main img').length, document.title.includes('run')]") == [0, False]
    for width in (360, 1600):
        view.page.set_viewport_size({"width": width, "height": 900})
        assert view.get("document.documentElement.scrollWidth") <= width
        assert view.get("document.querySelector('#why').scrollWidth <= document.querySelector('#why').clientWidth")


def large_numbers_have_room(view: Viewing) -> None:
    """The leftmost pixels of a chart are empty: a label that is cut off would reach them."""
    assert max(view.drawn("loss")["loss"]) > 1e6
    empty = """() => {
      const canvas = document.querySelector("#loss-chart canvas");
      const { data } = canvas.getContext("2d").getImageData(0, 0, 1, canvas.height);
      return data.every((one) => one === 0);
    }"""
    assert view.page.evaluate(empty)
