"""How a stream is watched: records at stated rows, and where an alarm or an incident begins or ends."""

import pytest

from glasstream.detect.incidents.watch import IncidentWatch
from glasstream.detect.incidents.watching import until_due
from glasstream_topics.watching import STATES, Watching
from tests.support.incident_streams import AT, NAMES, ROWS, Change, changed, nothing, scaled


def _watched(change: Change, seed: int = 1) -> tuple[IncidentWatch, list[Watching], dict[int, str]]:
    """Return a watch that has seen a stream from row 0 on, its records, and the statuses of its incidents by row."""
    watch = IncidentWatch("s", 0, 7, 0.5)
    rows = {one.row: one.status for one in watch.update(changed(change, seed).rows(first_row=0))}
    return watch, watch.taken(), rows


def test_records_are_due_at_stated_rows() -> None:
    rows, due = 0, []
    while rows < 20_000:
        rows += until_due(rows)
        due.append(rows)
    assert due == [1_000, 2_000, 3_000, 4_000, 5_000, 10_000, 15_000, 20_000]


def test_a_stream_that_stays_as_it_is_is_watched() -> None:
    watch, records, incidents = _watched(nothing)
    assert not incidents and [one.row for one in records] == [999, 1_999, 2_999, 3_999]
    assert watch.taken() == []
    for record in records:
        assert record.label is not None and list(record.features) == NAMES
        for one in (record.label, *record.features.values()):
            assert one.state == "watched" and [size.rows for size in one.detectable] == [1_000, 10_000]
            assert one.known == record.row + 1 - 300 and 0.0 <= one.evidence < 1.0
    newest = records[-1].features
    assert newest["still"].bins == 1 and newest["colour"].bins == 3
    assert all(newest[name].detectable[0].shift is None for name in ("c", "colour", "still"))
    sizes = [one.features["a"].detectable[1].shift for one in records]
    assert sizes[0] is not None and sizes[-1] is not None and sizes[0] > sizes[-1] > 0.0


def test_an_alarm_is_pending_until_its_incident_opens_and_silences_the_other_series() -> None:
    _, records, incidents = _watched(scaled)
    (opened, status), *_ = incidents.items()
    assert status == "open"
    raised, after = (one for one in records if AT < one.row <= opened)
    (moved,) = (name for name, one in raised.features.items() if one.state == "pending")
    assert {one.state for name, one in raised.features.items() if name != moved} == {"silent"}
    assert raised.features[moved].evidence > 1.0 and raised.features[moved].detectable
    assert after.row == opened and after.features[moved].state == "incident"
    assert {one.state for one in after.features.values()} == {"incident", "silent"}


def test_series_without_bins_and_muted_ones_have_no_sizes() -> None:
    stream = changed(nothing, 1)
    watch = IncidentWatch("s", 0, 7, 0.5)
    list(watch.update(stream.rows(0, 1_900, first_row=0)))
    watch.series.moves[(0,)] = 2
    watch.series.calibrating = []
    watch.series._begin_anew(2)
    list(watch.update(stream.rows(1_900, 2_000, first_row=0)))
    features = watch.taken()[-1].features
    assert [one.state for one in features.values()] == ["muted", "calibrating", "watched", "watched", "watched"]
    assert [bool(one.detectable) for one in features.values()] == [False, False, True, True, True]


@pytest.mark.parametrize("change", [nothing, scaled])
def test_every_state_has_words(change: Change) -> None:
    _, records, _ = _watched(change)
    assert {one.state for record in records for one in record.features.values()} <= STATES.keys()
    assert all(record.row < ROWS for record in records)
