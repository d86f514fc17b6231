"""Laws of what a viewer is sent: the first message and all that follow come to what a new viewer is sent at once."""

import random
from itertools import pairwise
from typing import Any

import orjson
import pytest

from glasstream.app.page import explained as explained_module
from glasstream.app.page import viewer as viewer_module
from glasstream.app.page.incidents import MOST, MOST_BYTES
from glasstream.app.page.overview import Rows
from glasstream.app.page.parts import row_part
from glasstream.app.page.store import Store
from glasstream.app.page.viewer import Channel, Seat, View, Viewer
from glasstream.app.page.watching import MOST as MOST_WATCHED
from glasstream.detect.groups.settings import MOST_ATTRIBUTES
from glasstream_topics import attributions
from glasstream_topics.incidents import VERDICTS
from tests.support.page_records import (
    attribution_record,
    comparison_record,
    drift_record,
    effect_record,
    group_record,
    importance_record,
    incident_record,
    novelty_record,
    prediction_record,
    segments_record,
    watching_record,
)
from tests.support.viewer import put, sent, some, store


def joined(state: dict[str, Any], delta: dict[str, Any]) -> dict[str, Any]:
    """Apply the updates as the page does."""
    whole = {**state, **delta, "type": "state", "alarms": state.get("alarms", []) + delta.get("alarms", [])}
    for part in ("quality", "novelty"):
        old, new = state[part]["bins"], delta[part]["bins"]
        if old["width"] == new["width"]:
            kept = sum(index < new["from"] for index in old["index"])
            whole[part]["bins"] = {
                "width": new["width"],
                "from": 0,
                **{
                    name: old[name][:kept] + new[name]
                    for name in ("index", "first", "last", "count", "mean", "note", "ts")
                },
            }
    for name in ("row", "seq", "lag", "coverage", "others"):
        whole["importance"][name] = state["importance"][name] + delta["importance"][name]
    for feature, columns in whole["importance"]["features"].items():
        for name in columns:
            columns[name] = state["importance"]["features"][feature][name] + columns[name]
    if "incidents" in delta:
        newest = {one["incident"]: one for one in [*state.get("incidents", []), *delta["incidents"]]}
        whole["incidents"] = [newest[number] for number in delta["incidents_kept"]]
    if "effect" in delta:
        whole["effect"]["curves"] = state["effect"]["curves"] + delta["effect"]["curves"]
    return whole


def test_clients_that_join_late_or_read_slowly_have_what_the_others_have() -> None:
    """Each client's messages come to what all others have, whenever it joined and whatever was taken from its queue."""
    known = store()
    channel = Channel(Rows(known), View())
    chance = random.Random(3)
    seats: list[tuple[Seat, list[dict[str, Any]]]] = []
    for turn in range(40):
        some(known, range(turn * 12, turn * 12 + 12))
        channel.turn(turn / 100)
        if turn % 8 == 0:
            seats.append((channel.join(lambda: None, turn / 100), []))
        for place, (seat, had) in enumerate(seats):
            if place % 2 == 0 or chance.random() < 0.3 or turn == 39:
                had += map(orjson.loads, seat.queue)
                seat.queue.clear()
    ends = []
    for seat, had in seats:
        assert not seat.behind and had[0]["type"] == "state"
        whole = had[0]
        for message in had[1:]:
            whole = message if message["type"] == "state" else joined(whole, message)
        ends.append(whole)
    assert all(end == ends[0] for end in ends[1:]) and len(ends[0]["importance"]["row"]) == 48
    assert sum(len(had) for _, had in seats) > 100


def test_who_takes_nothing_holds_a_bounded_queue_and_gets_a_state_when_it_reads_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(viewer_module, "_QUEUED_BYTES", 20_000)
    known = store()
    channel = Channel(Rows(known), View())
    slow, quick = channel.join(lambda: None, 0.0), channel.join(lambda: None, 0.0)
    largest = 0
    for turn in range(60):
        some(known, range(turn * 10, turn * 10 + 10))
        channel.turn(turn / 100)
        largest = max(largest, sum(map(len, slow.queue)))
        newest = quick.queue[-1] if quick.queue else b""
        quick.queue.clear()
    assert len(newest) < largest <= 20_000 + len(channel._viewer.whole())
    slow.queue.clear()
    slow.behind = True
    some(known, range(600, 610))
    channel.turn(1.0)
    (state,) = map(orjson.loads, slow.queue)
    assert state["type"] == "state" and state["importance"]["row"][-1] == 609
    channel.leave(slow)
    channel.leave(quick)
    assert channel.empty


def test_state_and_deltas_come_to_what_a_new_viewer_is_sent() -> None:
    known = store()
    some(known, range(100))
    viewer = Viewer(Rows(known), View())
    whole = sent(viewer)
    assert whole is not None and whole["type"] == "state"
    steps = (100, 101, 160, 290, 291, 450, 590)  # nothing is thinned out yet
    for start, end in pairwise(steps):
        some(known, range(start, end))
        delta = sent(viewer)
        assert delta is not None and delta["type"] == "delta"
        whole = joined(whole, delta)
    fresh = sent(Viewer(Rows(known), View()))
    assert whole == fresh
    assert sent(viewer) is None


def test_drawn_numbers_are_those_of_the_records() -> None:
    known = store()
    put(known, "importance", importance_record(9, {"a": 1 / 3, "b": 0.1}))
    put(known, "importance", importance_record(19, {"a": 0.25, "new": 0.7}))
    message = sent(Viewer(Rows(known), View()))
    assert message is not None
    part = message["importance"]
    assert part["seq"] == [9, 19] and part["lag"] == [7, 7]
    assert part["features"]["a"] == {"value": [1 / 3, 0.25], "low": [1 / 3 - 0.1, 0.15], "high": [1 / 3 + 0.1, 0.35]}
    assert part["features"]["b"]["value"] == [0.1, None]
    assert part["features"]["new"]["value"] == [None, 0.7]
    assert [entry[1] for entry in part["ranking"]] == ["new", "a"]


def test_top_and_pinned_features_and_the_rest_as_a_sum() -> None:
    known = store()
    values = {f"f{at:03d}": float(at) for at in range(300)}
    known.streams.clear()
    known.most_features = 2_000
    put(known, "importance", importance_record(9, values))
    message = sent(Viewer(Rows(known), View(top=2, pinned=("f005", "f299", "nobody"))))
    assert message is not None
    part = message["importance"]
    assert list(part["features"]) == ["f299", "f298", "f005"]
    assert part["others"] == [sum(values.values()) - 299 - 298 - 5]
    assert len(part["ranking"]) == 300


def test_a_viewer_that_is_far_behind_is_sent_a_state() -> None:
    known = store()
    some(known, range(100))
    viewer = Viewer(Rows(known), View())
    sent(viewer)
    some(known, range(100, 1_000))
    message = sent(viewer)
    assert message is not None and message["type"] == "state" and len(message["importance"]["seq"]) == 100


def test_other_features_that_lead_bring_a_state() -> None:
    known = store()
    put(known, "importance", importance_record(9, {"a": 0.5, "b": 0.1}))
    viewer = Viewer(Rows(known), View(top=1))
    first = sent(viewer, 0.0)
    put(known, "importance", importance_record(19, {"a": 0.0, "b": 5.0}))
    soon = sent(viewer, 1.0)
    put(known, "importance", importance_record(29, {"a": 0.0, "b": 5.0}))
    later = sent(viewer, 20.0)
    assert first and soon and later
    assert (list(first["importance"]["features"]), soon["type"]) == (["a"], "delta")
    assert (list(later["importance"]["features"]), later["type"]) == (["b"], "state")


def test_a_new_epoch_begins_anew_and_an_older_one_is_passed_over() -> None:
    known = store()
    put(known, "importance", importance_record(99, {"a": 0.5}))
    viewer = Viewer(Rows(known), View())
    sent(viewer)
    put(known, "importance", importance_record(9, {"b": 0.25}, epoch=1))
    put(known, "importance", importance_record(199, {"a": 0.5}))
    message = sent(viewer)
    assert message is not None
    assert (message["type"], message["epoch"], message["importance"]["seq"]) == ("state", 1, [9])
    assert list(message["importance"]["features"]) == ["b"]


def test_a_record_that_came_twice_is_there_once() -> None:
    known = store()
    for _ in range(2):
        put(known, "importance", importance_record(9, {"a": 0.5}))
        put(known, "predictions", prediction_record(9, 1.0))
        put(known, "effects", effect_record(9, "a", [0.0, 1.0]))
        put(known, "novelty", novelty_record(9, flagged=True))
    message = sent(Viewer(Rows(known), View()))
    assert message is not None
    assert message["importance"]["seq"] == [9] and message["quality"]["events"] == 1
    assert len(message["effect"]["curves"]) == 1 and message["novelty"]["flagged"] == 1


def test_streams_and_features_beyond_the_bounds_are_counted() -> None:
    known = Store(most_streams=1, most_features=2, most_summaries=1)
    put(known, "importance", importance_record(9, {"a": 0.5, "b": 0.4, "c": 0.3}))
    put(known, "importance", importance_record(9, {"a": 0.5}, stream="other"))
    message = sent(Viewer(Rows(known), View()))
    assert message is not None
    assert (message["streams"], message["left_out"], message["importance"]["left_out"]) == (["s"], 1, 1)


def test_memory_does_not_grow_with_the_stream() -> None:
    known = store()
    kept = []
    for row in range(9, 30_000, 10):
        put(known, "importance", importance_record(row, {"a": 0.5}))
        put(known, "effects", effect_record(row, "a", [0.1, 0.2]))
        put(known, "drift", drift_record(row, "a", 0.1, 0.5))
        history = known.streams["s"]
        kept.append(len(history.methods["ipfi"].points) + len(history.effects["a", "yes"]) + len(history.alarms))
    assert max(kept) <= 600 + 60 + 200


def test_a_stream_that_is_not_there_yet_is_waited_for() -> None:
    known = store()
    viewer = Viewer(Rows(known), View(stream="s"))
    waiting = sent(viewer)
    assert waiting is not None and waiting["epoch"] is None and waiting["stream"] == "s"
    assert sent(viewer) is None
    put(known, "predictions", prediction_record(0, None))
    message = sent(viewer)
    assert message is not None and (message["type"], message["epoch"]) == ("state", 0)


def test_what_was_rejected_and_what_cannot_be_read_is_told() -> None:
    known = store()
    known.reject("not_json")
    known.reject("not_json")
    known.damaged = 1
    message = sent(Viewer(Rows(known), View()))
    assert message is not None and message["rejected"] == {"not_json": 2} and message["damaged"] == 1


def test_incidents_are_bounded_in_number_and_bytes_and_open_ones_stay_longest() -> None:
    known = store()
    viewer = Viewer(Rows(known), View())
    put(known, "incidents", incident_record(50, 1, summary="open since the start"))
    for number in range(2, MOST + 21):
        put(known, "incidents", incident_record(100 * number, number, status="over"))
    message = sent(viewer)
    assert message is not None and message["incidents_total"] == MOST + 20
    newest = [1, *range(22, MOST + 21)]
    assert message["incidents_kept"] == [one["incident"] for one in message["incidents"]] == newest

    for number in range(MOST + 21, MOST + 41):
        put(known, "incidents", incident_record(100 * number, number, status="normal", summary="x" * (MOST_BYTES // 8)))
        assert (
            sum(map(len, map(orjson.dumps, (sent(Viewer(Rows(known), View())) or {})["incidents"]))) < 1.1 * MOST_BYTES
        )
    kept = (sent(viewer) or {})["incidents_kept"]
    assert kept[0] == 1 and kept[1:] == list(range(kept[1], MOST + 41)) and 5 < len(kept) < 9
    put(known, "incidents", incident_record(99_999, 1, status="over"))
    put(known, "incidents", incident_record(99_999, MOST + 41, summary="x" * (MOST_BYTES // 8)))
    assert 1 not in (sent(viewer) or {})["incidents_kept"]


def test_the_newest_record_of_an_incident_counts_and_a_new_epoch_begins_anew() -> None:
    known = store()
    put(known, "incidents", incident_record(200, 1, status="over"))
    put(known, "incidents", incident_record(100, 1))
    message = sent(Viewer(Rows(known), View()))
    assert message is not None and [one["status"] for one in message["incidents"]] == ["over"]
    put(known, "importance", importance_record(9, {"a": 0.5}, epoch=1))
    message = sent(Viewer(Rows(known), View()))
    assert message is not None and "incidents" not in message and message["incidents_total"] == 0


def test_the_onset_is_sent_whole_and_whether_streams_are_watched() -> None:
    known = store()
    put(known, "incidents", incident_record(200, 1))
    message = sent(Viewer(Rows(known), View("s")))
    assert message is not None and message["watched"] is True
    (one,) = message["incidents"]
    assert one["onset"] == {"row": 150, "earliest": 130, "latest": 170, "seq": 151, "ts": 1_767_225_600_000}
    assert (sent(Viewer(Rows(Store(1, 1, 1, watched=False)), View())) or {})["watched"] is False


def test_how_a_stream_is_watched_is_sent_once_as_of_its_newest_record_and_bounded() -> None:
    known = store()
    put(known, "importance", importance_record(1_000, {"age": 0.5}))
    put(known, "watching", watching_record(1_999, {"age": "watched", "car": "muted"}))
    put(known, "watching", watching_record(999, {"age": "calibrating"}))
    viewer = Viewer(Rows(known), View())
    message = sent(viewer)
    assert message is not None and message["watching"]["row"] == 1_999 and message["watching"]["left_out"] == 0
    series = message["watching"]["series"]
    assert [one["feature"] for one in series] == [None, "car", "age"]
    assert [one["state"] for one in series] == ["watched", "muted", "watched"]
    assert [one["detectable"] for one in series[1:]] == [{}, {"1000": "6.2 % / – / ±2.5"}]
    put(known, "importance", importance_record(2_000, {"age": 0.5}))
    delta = sent(viewer)
    assert delta is not None and delta["type"] == "delta" and "watching" not in delta
    many = {f"f{number:03}": "watched" for number in range(MOST_WATCHED)} | {"zip": "pending"}
    put(known, "watching", watching_record(2_999, many))
    part = (sent(viewer) or {})["watching"]
    assert part["left_out"] == 1 and [one["feature"] for one in part["series"][:3]] == [None, "zip", "f000"]


def test_weak_segments_are_sent_once_as_of_the_newest_record_also_if_there_are_none() -> None:
    known = store()
    put(known, "importance", importance_record(1_000, {"age": 0.5}))
    viewer = Viewer(Rows(known), View())
    assert "segments" not in (sent(viewer) or {})
    put(known, "segments", segments_record(4_999, "age >= 60", "car = b"))
    put(known, "segments", segments_record(3_999, "age < 20"))
    delta = sent(viewer)
    assert delta is not None and delta["type"] == "delta"
    assert [one["text"] for one in delta["segments"]["segments"]] == ["age >= 60", "car = b"]
    assert delta["segments"]["segments"][0] == {
        "text": "age >= 60", "share": 0.125, "loss": 0.5, "outside": 0.25, "low": 0.125, "high": 0.375, "since": 3_000,
    }  # fmt: skip
    assert orjson.loads(viewer.whole())["segments"] == delta["segments"]
    put(known, "importance", importance_record(2_000, {"age": 0.5}))
    assert "segments" not in (sent(viewer) or {})
    put(known, "segments", segments_record(5_999))
    none = (sent(viewer) or {})["segments"]
    assert none["segments"] == [] and none["sentence"].startswith("no segment stands out as of row 5,999")


def test_each_verdict_has_an_advice_of_its_own_and_unknown_ones_are_named() -> None:
    known = store()
    for number, verdict in enumerate([*VERDICTS, "of_tomorrow"], 1):
        put(known, "incidents", incident_record(100 * number, number, verdict=verdict))
    message = sent(Viewer(Rows(known), View()))
    assert message is not None
    assert [one["title"] for one in message["incidents"]] == [*VERDICTS.values(), "of tomorrow"]
    assert len({one["advice"] for one in message["incidents"]}) == len(VERDICTS) + 1


def test_explained_events_have_their_predictions_whichever_topic_is_read_first() -> None:
    known = store()
    events = {seq: (attribution_record(seq, {"age": 0.5}), prediction_record(seq, 1.0, ts=seq)) for seq in (3, 4)}
    put(known, "attributions", events[3][0])
    put(known, "predictions", events[3][1])
    first = sent(Viewer(Rows(known), View()))
    put(known, "predictions", events[4][1])
    put(known, "attributions", events[4][0])
    put(known, "attributions", attribution_record(5, {"age": -0.125}, output=None))
    message = sent(Viewer(Rows(known), View()))
    assert first and message and first["explained"] == {"total": 1, "rows": [[3, "yes", 0.75, "3", 3, "no", False]]}
    facts = [[seq, "yes", 0.75, str(seq), seq, "no", False] for seq in (3, 4)]
    assert message["explained"] == {"total": 3, "rows": [*facts, [5, None, 0.125, None, None, None, False]]}


def test_flagged_events_are_marked_whichever_topic_is_read_first() -> None:
    known = store()
    put(known, "attributions", attribution_record(3, {"age": 0.5}))
    for seq in (3, 4, 5):
        put(known, "novelty", novelty_record(seq, flagged=seq != 5))
    for seq in (4, 5):
        put(known, "attributions", attribution_record(seq, {"age": 0.5}))
    message = sent(Viewer(Rows(known), View()))
    assert message and [row[6] for row in message["explained"]["rows"]] == [True, True, False]


def test_the_opened_event_is_told_in_the_words_of_its_record_and_stays() -> None:
    known = store()
    names = {"age": 0.5, "<b>salary</b>": -0.125}
    put(known, "predictions", prediction_record(7, None))
    viewer = Viewer(Rows(known), View(event=7))
    waiting = sent(viewer)
    put(known, "attributions", data := attribution_record(7, names))
    delta = sent(viewer)
    record = attributions.decode(data)
    assert waiting and delta and "opened" not in waiting and delta["type"] == "delta"
    part = delta["opened"]
    assert part["row"] == [7, "yes", 0.625, "7", None, None, False]
    assert (part["sentence"], part["origin"]) == (record.sentence(), record.origin())
    assert part["steps"] == [
        ["average event", 0.25, 0.25, 0.25],
        ["age = 19.5", 0.5, 0.25, 0.75],
        ["<b>salary</b> = 19.5", -0.125, 0.75, 0.625],
        ["prediction", 0.625, 0.625, 0.625],
    ]
    for seq in range(8, 8 + explained_module.MOST):
        put(known, "attributions", attribution_record(seq, names))
    message = sent(viewer)
    assert message and "opened" not in message and message["explained"]["rows"][0][0] == 8
    assert orjson.loads(viewer.whole())["opened"] == part
    newest = orjson.loads(Viewer(Rows(known), View()).message(0.0) or b"")
    assert newest["opened"]["row"][0] == 7 + explained_module.MOST
    assert "opened" not in (sent(Viewer(Rows(known), View(event=7))) or {})
    put(known, "attributions", attribution_record(7, {"age": 0.25}, epoch=1))
    again = sent(viewer)
    assert again and again["opened"]["row"] == [7, "yes", 0.5, None, None, None, False]


def test_explained_events_are_bounded_in_number_and_bytes_and_rare_classes_stay() -> None:
    known = store()
    most, largest = explained_module.MOST, explained_module.MOST_BYTES
    for seq in range(3 * most):
        put(known, "predictions", prediction_record(seq, 1.0))
        put(known, "attributions", attribution_record(seq, {"a": 0.5}, output="no" if seq % 100 else "rare"))
    message = sent(Viewer(Rows(known), View()))
    assert message is not None and message["explained"]["total"] == 3 * most
    rows = message["explained"]["rows"]
    rare = [row[0] for row in rows if row[1] == "rare"]
    assert rare == list(range(0, 3 * most, 100)) and len(rows) == most
    assert [row[0] for row in rows][-10:] == list(range(3 * most - 10, 3 * most))
    explained = known.streams["s"].explained
    for seq in range(3 * most, 3 * most + 40):
        put(known, "attributions", attribution_record(seq, {"a" * (largest // 8): 0.5}, output="x" * (largest // 80)))
        assert sum(map(len, explained._data.values())) + len(str(explained.rows())) < 1.1 * largest
    assert [row.seq for row in explained.rows()][-4:] == list(range(3 * most + 36, 3 * most + 40))
    for seq in range(10_000, 20_000):
        put(known, "predictions", prediction_record(seq, None, target="x" * 100))
    assert len(explained._waiting) == 2_000 and explained._waiting_bytes == sum(
        size for _, size in explained._waiting.values()
    )


def test_groups_are_sent_when_they_change_with_the_rates_of_the_rarer_class() -> None:
    known = store()
    viewer = Viewer(Rows(known), View())
    put(known, "predictions", prediction_record(0, 1.0))
    first = sent(viewer)
    assert first is not None and "groups" not in first
    put(known, "groups", group_record(300))
    put(known, "groups", group_record(400, alarms=["accuracy of sex = 'f' fell"]))
    put(known, "groups", group_record(350))  # it was read late
    delta = sent(viewer)
    assert delta is not None and delta["type"] == "delta"
    (table,) = delta["groups"]
    assert (table["attribute"], table["rows"], table["positive"]) == ("sex", 400, "b")
    assert table["alarms"] == ["accuracy of sex = 'f' fell"] and table["demographic_parity_difference"] == 0.25
    women, men, missing = table["groups"]
    assert women["selection"] == [10, 0.25, 0.0, 0.75] and men["rows"] == 355 and women["error"] is None
    assert (missing["kind"], missing["accuracy"]) == ("missing", [5, None, None, None])
    assert orjson.loads(viewer.whole())["groups"] == delta["groups"]
    put(known, "predictions", prediction_record(1, 1.0))
    unchanged = sent(viewer)
    assert unchanged is not None and "groups" not in unchanged
    for number in range(20):
        put(known, "groups", group_record(300, f"attribute {number}"))
    assert len(orjson.loads(viewer.whole())["groups"]) <= MOST_ATTRIBUTES
    put(known, "groups", group_record(100, "region", epoch=1))
    renewed = sent(viewer)
    assert renewed is not None and [one["attribute"] for one in renewed["groups"]] == ["region"]


def test_comparisons_are_sent_when_they_change_and_the_overview_has_the_newest() -> None:
    known = store()
    viewer = Viewer(Rows(known), View())
    put(known, "predictions", prediction_record(0, 1.0))
    first = sent(viewer)
    assert first is not None and "comparisons" not in first
    put(known, "comparisons", comparison_record(200))
    put(known, "comparisons", comparison_record(300, "other"))
    put(known, "comparisons", comparison_record(250))  # it was read late
    delta = sent(viewer)
    assert delta is not None and delta["type"] == "delta"
    (one,) = delta["comparisons"]
    assert (one["rows"], one["better"], one["other"]) == (300, "other", "s @ other.")
    assert one["text"].startswith("s @ other. is better since row 1 of 300: Brier loss lower by 0.2500")
    assert orjson.loads(viewer.whole())["comparisons"] == delta["comparisons"]
    put(known, "comparisons", comparison_record(100, "stream", start=7))  # it has begun anew
    renewed = sent(viewer)
    assert renewed is not None and [one["rows"] for one in renewed["comparisons"]] == [100]
    put(known, "predictions", prediction_record(1, 1.0))
    unchanged = sent(viewer)
    assert unchanged is not None and "comparisons" not in unchanged
    for number in range(20):
        put(known, "comparisons", comparison_record(100, None, f"challenger {number}"))
    many = orjson.loads(viewer.whole())["comparisons"]
    assert len(many) == 8 and many[-1]["other"] == "challenger 6"
    assert row_part(known.summaries["s"])["compared"] == {"better": None, "other": "challenger 19"}
    put(known, "comparisons", comparison_record(100, "other", "x", epoch=1))
    begun = sent(viewer)
    assert begun is not None and [one["other"] for one in begun["comparisons"]] == ["x"]
