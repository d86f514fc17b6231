"""Expected performance without labels: intervals hold, a miscalibrated model is corrected, and state is bounded."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from math import sqrt
from typing import NamedTuple

import msgspec
import numpy as np
import pytest

from glasstream.explain.losses import loss_one
from glasstream.flow.learner.expected import LEAST, Cells, ExpectedPerformance, Saved, Window
from glasstream_topics import predictions
from glasstream_topics.predictions import Estimate
from tests.support.late_labels import apart, delays
from tests.support.learner import learn
from tests.support.odd_labels import given, odd, packed

SIZE = 200


class Seen(NamedTuple):
    """An event: whether it comes with its label, what the model says, and the label."""

    labelled: bool
    probabilities: Mapping[str, float]
    target: str

    @property
    def label(self) -> str:
        return max(self.probabilities, key=self.probabilities.__getitem__)


def stream(seed: int, count: int, true: Callable[[float], float], *, share: float = 0.3) -> Iterator[Seen]:
    """Events of two classes, whose probabilities move along the stream while `true` of them stays."""
    draws = np.random.default_rng(seed)
    for number in range(count):
        moved = 2.0 * number / count
        p = float(draws.beta(1 + 2 * moved, 3 - moved))
        target = "a" if draws.random() < true(p) else "b"
        labelled = draws.random() < share
        yield Seen(bool(labelled or number < 300), {"a": p, "b": 1.0 - p}, target)


def play(
    events: Iterator[Seen], *, late: int | None, loss: str = "brier", expected: ExpectedPerformance | None = None
) -> list[Estimate]:
    """Return all estimates. Labels come `late` events later, or never."""
    expected = ExpectedPerformance(SIZE, 10**6) if expected is None else expected
    told: list[Estimate] = []
    due: deque[tuple[int, Seen]] = deque()
    for seq, seen in enumerate(events):
        if seen.labelled:
            value = loss_one(loss, seen.label, seen.probabilities, 0.0, seen.target)
            expected.learn(seen.label, seen.probabilities, seen.label == seen.target, value, loss)
        else:
            expected.arrive(seq, seen.label, seen.probabilities, loss)
            due.append((seq, seen))
        while late is not None and due and due[0][0] <= seq - late:
            before, other = due.popleft()
            expected.join(before, other.label, other.probabilities, other.target, loss)
        told += expected.take()
    for before, other in due if late is not None else ():
        expected.join(before, other.label, other.probabilities, other.target, loss)
    return told + expected.take()


TRUE: dict[str, Callable[[float], float]] = {
    "calibrated": lambda p: p,
    "overconfident": lambda p: 0.5 + 0.6 * (p - 0.5),
    "underconfident": lambda p: p * p / (p * p + (1 - p) * (1 - p)),
}


@pytest.mark.parametrize("model", TRUE)
@pytest.mark.parametrize("share", [0.3, 0.0], ids=["some labels at once", "all labels late"])
@pytest.mark.parametrize("loss", ["brier", "cross_entropy"])
def test_the_interval_holds_what_late_labels_say_although_the_features_move(
    model: str, share: float, loss: str
) -> None:
    told = [
        one
        for seed in range(3)
        for one in play(stream(seed, 20_000, TRUE[model], share=share), late=900, loss=loss)
        if one.labels is not None
    ]
    assert len(told) > 200 and all(one.labels == one.events == SIZE for one in told)
    least = 0.93 - 2 * sqrt(0.93 * 0.07 / len(told))
    for expected in ([one.accuracy for one in told], [one.loss for one in told]):
        assert all(one.inside == (one.low <= (one.realised or 0.0) <= one.high) for one in expected)
        assert sum(bool(one.inside) for one in expected) / len(told) >= least
        assert np.mean([one.high - one.low for one in expected]) < 0.25, "an interval that says something"
    assert told[-1].settled == len(told) / 3
    assert told[-1].accuracy_inside == sum(bool(one.accuracy.inside) for one in told[-told[-1].settled :])


@pytest.mark.parametrize("late", [900, None], ids=["some labels late", "the others never"])
def test_the_interval_is_as_wide_as_the_concept_is_restless(late: int | None) -> None:
    """Every 400 events, other probabilities are true: labels of the past say little, and the interval admits it."""

    def restless(seed: int) -> Iterator[Seen]:
        draws = np.random.default_rng(seed)
        for number in range(20_000):
            if number % 400 == 0:
                trust = draws.uniform(-0.5, 1.0)
            p = float(draws.beta(2, 2))
            target = "a" if draws.random() < 0.5 + trust * (p - 0.5) else "b"
            yield Seen(bool(draws.random() < 0.3), {"a": p, "b": 1.0 - p}, target)

    held, widths = [], []
    for seed in range(3):
        events = list(restless(seed))
        for one in play(iter(events), late=late):
            window = [seen for seen in events[one.first : one.last + 1] if not seen.labelled]
            if one.labels is None and one.first > 5_000:
                accuracy = np.mean([seen.label == seen.target for seen in window])
                held.append(one.accuracy.low <= accuracy <= one.accuracy.high)
                widths.append(one.accuracy.high - one.accuracy.low)
    assert len(held) > 100 and np.mean(held) >= 0.9 - 2 * sqrt(0.9 * 0.1 / len(held))
    assert 0.2 < np.mean(widths) < 0.6


def test_what_a_miscalibrated_model_promises_is_corrected() -> None:
    events = list(stream(1, 30_000, TRUE["overconfident"]))
    errors, promised = [], []
    for one in play(iter(events), late=900):
        if one.labels is not None:
            window = [seen for seen in events[one.first : one.last + 1] if not seen.labelled]
            errors.append(one.accuracy.value - (one.accuracy.realised or 0.0))
            promised.append(float(np.mean([max(seen.probabilities.values()) for seen in window])) - errors[-1])
            promised[-1] -= (one.accuracy.realised or 0.0) - errors[-1]
    assert abs(np.mean(errors)) < 0.01
    assert np.mean(promised) > 0.08, "the model itself promises more"


def plain(events: list[Seen], size: int) -> list[tuple[float, float]]:
    """Expected accuracy and Brier score of each window, from all labels again for each event."""
    before: list[Seen] = []
    found: list[tuple[float, float]] = []
    window: list[tuple[float, float]] = []

    def cell(seen: Seen) -> tuple[str, int]:
        return seen.label, int(seen.probabilities[seen.label] * 20)

    for seen in events:
        if seen.labelled:
            before.append(seen)
            continue
        if len(before) < LEAST:
            continue
        whole = 2.0
        right = loss = 0.0
        for age, other in enumerate(reversed(before)):
            if cell(other) == cell(seen):
                weight, p = (1 + 1 / 2000) ** -(age + 1), other.probabilities[other.label]
                whole += weight
                right += weight * ((other.label == other.target) - p)
                value = loss_one("brier", other.label, other.probabilities, 0.0, other.target)
                loss += weight * (value - 2 * p * (1 - p))
        p = seen.probabilities[seen.label]
        window.append((min(max(p + right / whole, 0.0), 1.0), max(0.0, 2 * p * (1 - p) + loss / whole)))
        if len(window) == size:
            found.append((float(np.mean([a for a, _ in window])), float(np.mean([b for _, b in window]))))
            window.clear()
    return found


def test_it_equals_the_plain_definition() -> None:
    events = list(stream(2, 2_000, TRUE["underconfident"]))
    told = play(iter(events), late=None, expected=ExpectedPerformance(100, 10**6))
    expected = plain(events, 100)
    assert len(expected) > 10
    np.testing.assert_allclose([(one.accuracy.value, one.loss.value) for one in told], expected, rtol=1e-9)


def copied(expected: ExpectedPerformance, seqs: int) -> ExpectedPerformance:
    """Return it as a checkpoint does: through plain data."""
    saved = msgspec.convert(msgspec.json.decode(msgspec.json.encode(expected.saved())), Saved)
    again = ExpectedPerformance(expected.size, expected.reach)
    again.restore(saved, seqs, ["a", "b", "c"])
    return again


def test_state_is_bounded_and_goes_on_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that grow are divided in time, too."""
    monkeypatch.setattr("glasstream.flow.learner.expected._HEAVIEST", 2.0)
    events = list(stream(3, 4_000, TRUE["overconfident"]))
    whole, parts = ExpectedPerformance(50, 300), ExpectedPerformance(50, 300)
    told: list[list[Estimate]] = [[], []]
    for seq, seen in enumerate(events):
        if seq % 170 == 0:
            parts = copied(parts, seq)
        for one, out in zip((whole, parts), told, strict=True):
            if seen.labelled:
                value = loss_one("brier", seen.label, seen.probabilities, 0.0, seen.target)
                one.learn(seen.label, seen.probabilities, seen.label == seen.target, value, "brier")
            else:
                one.arrive(seq, seen.label, seen.probabilities, "brier")
            late = seq - 250
            if late >= 0 and not events[late].labelled and late % 3:
                other = events[late]
                one.join(late, other.label, other.probabilities, other.target, "brier")
            out += one.take()
        saved = whole.saved()
        assert len(saved.pending) <= 300 and len(saved.windows) <= 8 and len(saved.cells.sums) <= 2
        assert saved.cells.weight <= 2.1 and len(saved.frozen) <= 2 and len(saved.errors) <= 40
    assert told[0] == told[1]
    settled = [one for one in told[0] if one.labels is not None]
    assert settled and all(0 < (one.labels or 0) < 50 for one in settled)
    assert all(one.accuracy.inside is not None for one in settled), "two of three labels came"


def test_the_order_in_which_a_window_meets_classes_changes_no_bit() -> None:
    """A checkpoint sorts them."""
    source = np.random.Generator(np.random.PCG64(3))
    for _ in range(50):
        seen = [(str(source.integers(7)), float(source.uniform())) for _ in range(90)]
        windows = [Window(0, 0), Window(0, 0)]
        for window, order in zip(windows, (seen, seen[::-1]), strict=True):
            for label, p in order:
                window.count(label, p)
            window.close(Cells(), "brier")
        assert windows[0] == windows[1]


def test_without_late_labels_there_is_nothing() -> None:
    assert play((seen._replace(labelled=True) for seen in stream(4, 1_000, TRUE["calibrated"])), late=None) == []


def test_no_estimate_comes_before_some_labels() -> None:
    events = (seen._replace(labelled=False) for seen in stream(4, 2_000, TRUE["calibrated"]))
    told = play(events, late=600)
    assert told and min(one.first for one in told) == 600 + LEAST


@pytest.mark.parametrize("loss", ["brier", "cross_entropy", "zero_one"])
def test_a_single_class_is_always_right(loss: str) -> None:
    events = (Seen(number < 400, {"a": 1.0}, "a") for number in range(900))
    told = play(events, late=100, loss=loss)
    first = told[0]
    assert (first.accuracy.value, first.accuracy.high) == (1.0, 1.0)
    assert first.loss.value == pytest.approx(0.0, abs=1e-12)
    assert all(one.accuracy.inside and one.loss.inside for one in told if one.labels is not None)


def test_a_new_class_in_mid_stream_widens_the_interval_until_its_labels_come() -> None:
    def events() -> Iterator[Seen]:
        draws = np.random.default_rng(5)
        for number in range(6_000):
            new = number > 3_000 and draws.random() < 0.5
            said = {"c": 0.75, "a": 0.25, "b": 0.0} if new else {"a": 0.75, "b": 0.25}
            target = ("c" if draws.random() < 0.75 else "a") if new else ("a" if draws.random() < 0.75 else "b")
            yield Seen(not new and draws.random() < 0.5, said, target)

    told = [one for one in play(events(), late=1_000) if one.labels is None]
    widths = {one.first: one.accuracy.high - one.accuracy.low for one in told}
    before = [width for first, width in widths.items() if first < 2_500]
    without = [width for first, width in widths.items() if 3_100 < first < 3_700]
    after = [width for first, width in widths.items() if first > 5_000]
    assert min(without) > 1.5 * max(before) and max(after) < min(without)


def test_the_learner_publishes_them_however_events_are_packed_and_blocks_cut() -> None:
    events = [odd(number) for number in range(400)]
    sent = apart(events, delays("random:40", len(events)))
    chosen = given("linear", "labels.estimate=30")
    whole = learn(packed(sent, len(sent)), 10**9, chosen)
    records = [predictions.decode(one) for one in whole.predictions]
    told = [one for record in records for one in record.estimates or ()]
    assert len([one for one in told if one.labels is None]) == (400 - told[0].first) // 30
    right = {record.seq: record.prediction == events[record.seq]["y"] for record in records}
    settled = [one for one in told if one.labels is not None]
    assert len(settled) > 5
    for one in settled:
        seqs = range(one.first, one.last + 1)
        assert one.labels == one.events == len(seqs)
        assert one.accuracy.realised == sum(right[seq] for seq in seqs) / len(seqs)
        losses = [
            loss_one("brier", str(records[seq].prediction), records[seq].probabilities, 0.0, events[seq]["y"])
            for seq in seqs
        ]
        assert one.loss.realised == pytest.approx(np.mean(losses))
    for size, cut_every in ((1, 1), (7, 3)):
        assert learn(packed(sent, size), cut_every, chosen).predictions == whole.predictions
    off = learn(packed(sent, 7), 3, given("linear", "labels.estimate=0")).predictions
    assert [predictions.decode(one) for one in off] == [
        msgspec.structs.replace(record, estimates=None) for record in records
    ]


def test_a_stream_whose_labels_come_with_its_events_keeps_its_bytes() -> None:
    sent = packed([odd(number) for number in range(140)], 10)
    found = [learn(sent, 7, given("linear", f"labels.estimate={size}")).predictions for size in (0, 10)]
    assert found[0] == found[1] and b"estimates" not in b"".join(found[0])


def test_another_model_begins_a_new_calibration() -> None:
    """Late labels of events that the model before it has predicted say nothing about it."""
    before = ExpectedPerformance(10, 100)
    for _ in range(40):
        before.learn("a", {"a": 0.6, "b": 0.4}, True, 0.1, "brier")
    before.arrive(45, "a", {"a": 0.6, "b": 0.4}, "brier")
    after = before.begin(50)
    after.join(45, "a", {"a": 0.6, "b": 0.4}, "a", "brier")
    assert after.saved() == ExpectedPerformance(10, 100, since=50).saved()
