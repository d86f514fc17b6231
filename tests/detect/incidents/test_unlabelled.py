"""Events without labels: what they show is found, and nothing is said about labels and losses."""

from collections.abc import Iterator

import numpy as np
import pytest

from glasstream.detect.incidents.watch import IncidentWatch, Rows
from glasstream_topics import frames
from glasstream_topics.incidents import Incident, encode
from tests.support.incident_streams import (
    AT,
    Change,
    Stream,
    changed,
    concept_moved,
    data_moved,
    nothing,
    reasoning_moved,
    swapped,
)

FIRST, EVERY = 700, 3
"""Number of the first event, and of events from one that is watched to the next."""
SEEDS = range(3)


def watch() -> IncidentWatch:
    return IncidentWatch("s", 0, 7, 0.5, labelled=False)


def events(stream: Stream, sizes: int = 4_500) -> Iterator[Rows]:
    """Yield the rows of a stream as those of events without labels: every third event, whatever the others are."""
    for first in range(0, len(stream.loss), sizes):
        rows = stream.rows(first, first + sizes, first_row=0)
        unknown = np.zeros(len(rows.loss))
        yield rows._replace(seqs=FIRST + EVERY * rows.seqs, target=unknown, loss=unknown, classes=[])


def found(stream: Stream) -> list[Incident]:
    return [incident for rows in events(stream) for incident in watch().update(rows)]


def moved_and_relied_on(stream: Stream) -> None:
    stream.inputs[AT:, 1] += 4.0
    stream.importance[AT:, 0] -= 0.2
    stream.importance[AT:, 1] += 0.2


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("change", [swapped, data_moved, reasoning_moved])
def test_a_change_has_one_incident_by_the_numbers_of_its_events(change: Change, seed: int) -> None:
    records = found(changed(change, seed))
    assert {one.incident for one in records} == {1}
    one = records[0]
    at = FIRST + EVERY * AT
    assert one.verdict == {swapped: "feature_broken"}.get(change, change.__name__)
    near = 1_000 if change is reasoning_moved else 200  # importance is too noisy to tell
    assert abs(one.onset.row - at) <= EVERY * near and one.onset.row == one.onset.seq
    assert one.onset.earliest <= one.onset.row <= one.onset.latest and one.row == one.seq > at
    assert all(abs(evidence.row - at) <= EVERY * 1_000 for evidence in one.evidence)


@pytest.mark.parametrize("change", [swapped, data_moved, reasoning_moved, moved_and_relied_on])
def test_nothing_is_said_about_labels_and_losses(change: Change) -> None:
    for one in found(changed(change, 1)):
        assert (one.loss_before, one.loss_after, one.rule) == (None, None, "unlabelled")
        assert one.summary.startswith("in events without labels, ")
        assert not any(word in one.summary for word in ("loss", "rule", "and labels", " row "))


@pytest.mark.parametrize("seed", SEEDS)
def test_features_that_the_model_relies_on_more_and_less_are_named(seed: int) -> None:
    first = found(changed(moved_and_relied_on, seed))[0]
    assert (first.verdict, first.features[0].feature, first.features[0].fault) == ("data_moved", "b", "shifted")
    assert first.summary.endswith("the model relies more on b and less on a.")
    moved = found(changed(reasoning_moved, seed))[0]
    assert {one.feature for one in moved.features} == {"a", "b"}
    assert "although the inputs are as before; the model relies more on b and less on a." in moved.summary


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("change", [nothing, concept_moved])
def test_without_labels_nothing_is_known_of_a_change_of_the_labels_alone(change: Change, seed: int) -> None:
    assert found(changed(change, seed)) == []


def test_blocks_and_restarts_change_no_byte() -> None:
    stream, one, records = changed(moved_and_relied_on, 5), watch(), list[bytes]()
    for rows in events(stream, 333):
        records += map(encode, one.update(rows))
        meta, arrays = one.state()
        one = watch()
        frame = frames.decode(frames.encode("state", 1, meta, arrays), "state", 1)
        one.restore(frame.meta, frame.arrays)
    assert records == [*map(encode, found(stream))] != []


def test_a_model_that_was_replaced_ends_the_incident_and_opens_none() -> None:
    stream, one = changed(reasoning_moved, 2), watch()
    opened = next(incident for rows in events(stream, 50) for incident in one.update(rows))
    (ended,) = one.replace(90, 5_000, None, "brier")
    assert (opened.status, ended.status, ended.incident, ended.row) == ("open", "normal", 1, 5_000)
    assert one.verdict is None and list(one.replace(91, 5_001, None, "brier")) == []
