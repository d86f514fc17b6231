"""The learner: order of use, positions, silence, and what becomes of input that is not good."""

import sys
import threading

import orjson
import pytest
from river import base

from glasstream.base.errors import ModelError
from glasstream.events.message import Message, Position
from glasstream.flow.aggregator.partition import PartitionAggregator
from glasstream.flow.learner.partition import PartitionLearner
from glasstream_topics import clients, events, predictions, requests
from tests.support.learner import Collected, event, learn, message, same, settings

LOG = [message(n, [event(5 * n + k) for k in range(5)]) for n in range(20)]
WHOLE = learn(LOG, cut_every=10**9)


@pytest.mark.parametrize("cut_every", [1, 3, 7, 50])
def test_when_blocks_are_cut_changes_nothing(cut_every: int) -> None:
    same(learn(LOG, cut_every), WHOLE)


@pytest.mark.parametrize("size", [1, 4, 100])
def test_how_events_are_packed_changes_no_number(size: int) -> None:
    numbers = list(range(100))
    packed = [numbers[n : n + size] for n in range(0, 100, size)]
    log = [
        message(n, [event(k, id=k) for k in part] if size > 1 else event(part[0], id=part[0]))
        for n, part in enumerate(packed)
    ]
    other = learn(log)
    reference = learn([message(n, [event(k, id=k) for k in range(10 * n, 10 * n + 10)]) for n in range(10)])
    same(other, reference)


def test_predictions_carry_the_times_of_their_events() -> None:
    """Whether an event is learned alone, in a block, without a label, or later; an event without a time has none."""
    some = [event(n, id=n, ts=1_000 * n) if n % 3 else event(n, id=n) for n in range(60)]
    for n in range(0, 60, 10):
        del some[n]["y"]
    late = [{"id": n, "y": True, "ts": 5} for n in range(0, 60, 10)]
    for size in (1, 30):
        log = [message(n, some[n : n + size]) for n in range(0, 60, size)]
        records = learn([*log, message(60, late)], 10**9).predictions
        times = [predictions.decode(record).ts for record in records]
        assert times == [1_000 * n if n % 3 else None for n in range(60)]


def test_rows_are_explained_from_t0_on_with_the_scheduled_version() -> None:
    assert sorted(WHOLE.rows) == list(range(10, 100))
    versions = {row: sent[0] for row, sent in WHOLE.rows.items()}
    assert [versions[row] for row in (10, 19, 20, 39, 40, 99)] == [8, 8, 20, 20, 40, 80]
    assert [version for version, _ in WHOLE.snapshots] == [8, 20, 40, 60, 80, 100]


def test_a_row_is_drawn_from_rows_before_it_only() -> None:
    """Rows that hold their own number show whom they drew."""
    log = [message(n, {"x": {"now": float(n)}, "y": n % 2 > 0}) for n in range(200)]
    learner = PartitionLearner(0, settings())
    for one in log:
        for _ in learner.consume(one):
            pass
    learner.cut()
    blocks = learner.take_outbox()[0].requests
    for block in blocks:
        for i in range(block.count):
            assert block.draws["ipfi"][i, 0, 0] < block.x[i, 0] == block.first_row + i


def test_unlabelled_events_are_predicted_and_have_no_row() -> None:
    log = [message(n, event(n) if n % 4 else {"x": {"a": 100.0, "b": 100.0}}) for n in range(60)]
    collected = learn(log)
    assert len(collected.predictions) == 60
    assert sorted(collected.rows) == list(range(10, 45))
    seqs = [sent[1] for _, sent in sorted(collected.rows.items())]
    assert all(seq % 4 for seq in seqs) and seqs == sorted(seqs)
    import numpy as np

    drawn = np.concatenate([np.frombuffer(sent[4]) for sent in collected.rows.values()])
    assert (drawn < 100.0).all(), "an unlabelled event entered the reservoir"


def test_prediction_comes_before_learning() -> None:
    """No leakage: event t is predicted by a model that has learned the t events before it."""
    found = [predictions.decode(record) for record in WHOLE.predictions]
    assert [one.model_version for one in found] == list(range(100))
    assert found[0].prediction is None and found[0].loss is None and found[0].metric.value is None
    assert found[1].prediction is not None


@pytest.mark.parametrize("stop", [0, 1, 4, 5, 23, 50, 51, 60, 99, 100])
@pytest.mark.parametrize("cut_every", [1, 1_000])
def test_a_successor_goes_on_exactly_where_the_predecessor_committed(stop: int, cut_every: int) -> None:
    log = [
        *LOG[:10],
        message(10, b'{"flush": true}'),
        *[message(n + 1, [event(5 * n + k) for k in range(5)] + ([3] if n == 12 else [])) for n in range(10, 20)],
    ]
    quiet = learn(log, 1_000)
    collected = Collected()
    first = PartitionLearner(0, settings())
    done = 0
    position = first.position
    for one in log:
        for _ in first.consume(one):
            done += 1
            if done == stop:
                break
        if done == stop and stop:
            break
        if stop == 0:
            break
    if stop:
        position = first.position
        collected.take(first)
    second = PartitionLearner(0, settings(), silent_until=position)
    before = len(collected.snapshots)
    for one in log:
        for _ in second.consume(one):
            if cut_every == 1:
                if second.silent:
                    second.cut()
                else:
                    collected.take(second)
    collected.take(second)
    again = [pack for _, pack in collected.snapshots[before:]]
    assert repr(again) == repr([pack for _, pack in quiet.snapshots]), "snapshots are made again, the same"
    collected.snapshots = quiet.snapshots
    same(collected, quiet)


def test_flush_marks_close_the_block_and_take_no_number() -> None:
    log = [message(n, event(n)) for n in range(30)]
    flushed = [
        *log[:15],
        message(15, b'{"flush": true}'),
        *[message(n + 1, event(n, id=f"0-{n}-0")) for n in range(15, 30)],
    ]
    collected = learn(flushed, cut_every=1_000)
    assert collected.flushes == {15}
    assert collected.rows == learn(log, cut_every=1_000).rows


def test_a_flush_mark_before_anything_can_be_explained_says_nothing() -> None:
    collected = learn([message(0, b'{"flush": true}'), *LOG[:2], message(2, b'{"flush": true}')])
    assert collected.flushes == set()


BAD: list[tuple[str, bytes | None, bytes | None]] = [
    ("not_utf8", b"s", b"\xff\xfe"),
    ("not_json", b"s", b"{"),
    ("not_json", b"s", b'{"x": {"a": NaN}}'),
    ("not_an_object", b"s", b"3"),
    ("no_x", b"s", b'{"y": true}'),
    ("empty_x", b"s", b'{"x": {}}'),
    ("nested_value", b"s", b'{"x": {"a": {"b": 1}}}'),
    ("unknown_key", b"s", b'{"x": {"a": 1}, "extra": 1}'),
    ("null_message", b"s", None),
    ("too_large", b"s", b'{"x": {"a": "' + b"z" * 5_000_000 + b'"}}'),
    ("target_kind", b"s", b'{"x": {"a": 1}, "y": "text"}'),
    ("bad_id", b"s", b'{"x": {"a": 1}, "id": 1.5}'),
    ("bad_ts", b"s", b'{"x": {"a": 1}, "ts": 1.5}'),
    ("missing_stream", None, b'{"x": {"a": 1}}'),
    ("missing_stream", b"", b'{"x": {"a": 1}}'),
    ("bad_stream", b"s" * 250, b'{"x": {"a": 1}}'),
    ("bad_stream", b"\xff", b'{"x": {"a": 1}}'),
]


@pytest.mark.parametrize(("reason", "key", "value"), BAD)
def test_bad_input_is_a_dead_letter_and_the_good_events_around_it_are_explained(
    reason: str, key: bytes | None, value: bytes | None
) -> None:
    good = [event(n, id=n) for n in range(40)]
    log = [message(n, one) for n, one in enumerate(good[:20])]
    log.append(message(20, value, key))
    log += [message(n + 1, one) for n, one in enumerate(good[20:], start=20)]
    collected = learn(log)
    assert collected.dead == [[(None, reason)]]
    assert collected.rows == learn([message(n, one) for n, one in enumerate(good)]).rows


def test_bad_elements_are_one_dead_letter_and_the_others_go_on() -> None:
    batch = [event(0), 3, event(1), {"x": {}}, event(2, y="text"), event(3)]
    collected = learn([message(0, batch), *[message(n, event(n)) for n in range(4, 40)]])
    assert collected.dead == [[(1, "not_an_object"), (3, "empty_x"), (4, "target_kind")]]
    assert len(collected.predictions) == 3 + 36


def test_an_event_on_another_partition_than_its_keys_is_rejected() -> None:
    given = settings("topics.events=4")
    right = events.partition(b"s", 4)
    for partition in range(4):
        learner = PartitionLearner(partition, given)
        for _ in learner.consume(Message("events", partition, 0, b"s", orjson.dumps(event(0)))):
            pass
        found = [one for letter in learner.take_outbox()[1] for one in letter.found]
        if partition == right:
            assert found == []
        else:
            assert [one.reason for one in found] == ["wrong_partition"]
            assert all(one.setting in found[0].detail for one in clients.CLIENTS)
            assert clients.INTAKE in found[0].detail and "crc32" in found[0].detail


class Moody(base.Classifier):
    """Raises where it is told to."""

    def __init__(self) -> None:
        self.seen = 0

    def predict_proba_one(self, x, **kwargs):
        if x.get("a") == 5.0 and x.get("b") == 2.0:
            raise RuntimeError("not today")
        return {"true": 0.5, "false": 0.5} if self.seen else {}

    def learn_one(self, x, y):
        if x.get("a") == 6.0:
            raise ValueError("not this one")
        self.seen += 1

    @property
    def _multiclass(self):
        return True


def test_a_model_that_raises_gives_a_dead_letter_and_the_stream_goes_on() -> None:
    given = settings(f"model.name={__name__}:Moody")
    numbers = range(63)
    in_predict = [n for n in numbers if n % 7 == 5 and n % 3 == 2]
    in_learn = [n for n in numbers if n % 7 == 6]
    learner = PartitionLearner(0, given)
    for one in [message(n, event(n)) for n in numbers]:
        for _ in learner.consume(one):
            pass
    learner.cut()
    outbox, dead = learner.take_outbox()
    assert [letter.message.offset for letter in dead] == sorted(in_predict + in_learn)
    assert {found.reason for letter in dead for found in letter.found} == {"model_error"}
    details = " ".join(found.detail for letter in dead for found in letter.found)
    assert "predict: RuntimeError: not today" in details and "learn: ValueError: not this one" in details
    assert len(outbox.predictions) == len(numbers) - len(in_predict)
    assert learner.streams["s"].learner.state.rows == len(numbers) - len(in_predict) - len(in_learn)
    assert learner.streams["s"].admission.seq == len(numbers)


class Odd(Moody):
    """A classifier that gives no probabilities of its labels."""

    answers = iter(())

    def predict_proba_one(self, x, **kwargs):
        answer = next(self.answers, {})
        return answer() if callable(answer) else answer

    def learn_one(self, x, y):
        pass


def test_a_model_that_predicts_nothing_usable_says_what_it_gave() -> None:
    odd = ["true", 0.5, {"banana": 0.5, 7: 0.5}, {"true": -1.0, "false": 2.0}, {"true": 1e300}, {"true": float("nan")}]
    Odd.answers = iter([{}, *odd, sys.exit, {"true": 1.0}])
    learner = PartitionLearner(0, settings(f"model.name={__name__}:Odd"))
    for n in range(9):
        for _ in learner.consume(message(n, event(n))):
            pass
    learner.cut()
    outbox, dead = learner.take_outbox()
    told = [found.detail.partition("predict: ")[2] for letter in dead for found in letter.found]
    assert told[:2] == [
        f"TypeError: expected probabilities by class from predict_proba_one, got {odd!r}" for odd in ("true", 0.5)
    ]
    assert told[2] == (
        "TypeError: expected probabilities of the labels that it learns, which are texts, from predict_proba_one, got 7"
    )
    assert all(one.startswith("ArithmeticError: expected probabilities between 0 and 1, got {") for one in told[3:5])
    assert told[5].startswith("ArithmeticError: expected finite") and told[6].startswith("SystemExit")
    assert len(told) == 7 and len(outbox.predictions) == 2


class Greedy(Moody):
    """A model that takes its events apart."""

    def predict_proba_one(self, x, **kwargs):
        x.clear()
        return {}

    def learn_one(self, x, y):
        x["more"] = x.popitem()[1]


def test_a_model_may_change_what_it_gets() -> None:
    learner = PartitionLearner(0, settings(f"model.name={__name__}:Greedy"))
    for n in range(5):
        for _ in learner.consume(message(n, event(n))):
            pass
    learner.cut()
    assert learner.take_outbox()[1] == [] and learner.streams["s"].learner.state.features.names == list(event(0)["x"])


class Locked(Moody):
    """A model that can be neither copied nor pickled."""

    def __init__(self) -> None:
        super().__init__()
        self.lock = threading.Lock()

    def predict_proba_one(self, x, **kwargs):
        return {"true": 0.5, "false": 0.5}

    def learn_one(self, x, y):
        pass


def test_a_model_that_cannot_be_copied_is_named() -> None:
    learner = PartitionLearner(0, settings(f"model.name={__name__}:Locked"))
    with pytest.raises(ModelError, match=r"^Locked cannot be copied \(TypeError: .*lock.*define its parts at the top"):
        for number in range(63):
            for _ in learner.consume(message(number, event(number))):
                pass


def test_features_that_come_and_go_keep_their_rows_apart() -> None:
    """The records of a row do not depend on features that came after it, however blocks are cut."""
    log = [
        message(n, {"x": {"a": float(n % 7), **({"late": float(n)} if n >= 25 else {})}, "y": n % 7 > 3})
        for n in range(40)
    ]
    collected = learn(log, cut_every=1_000)
    assert collected.rows == learn(log, cut_every=1).rows
    assert collected.rows[24][5] == ("a",) and collected.rows[25][5] == ("a", "late")


def test_an_event_of_nothing_but_nulls_is_learned() -> None:
    log = [message(n, {"x": {"a": None}, "y": n % 2 > 0}) for n in range(30)]
    assert sorted(learn(log).rows) == list(range(10, 30))


def test_wide_rows_make_short_blocks() -> None:
    given = settings("block.bytes=65536")
    wide = {f"f{j}": 1.0 for j in range(400)}
    log = [message(n, {"x": wide, "y": n % 2 > 0}) for n in range(60)]
    learner = PartitionLearner(0, given)
    for one in log:
        for _ in learner.consume(one):
            pass
    learner.cut()
    sizes = [len(requests.encode(block)) for block in learner.take_outbox()[0].requests]
    assert max(sizes) < 65_536 + 400 * 20 + 1_000
    assert len(sizes) > 5


def test_positions_are_ordered_like_the_log() -> None:
    assert Position(1, 5) < Position(2, 0) < Position(2, 1)
    assert PartitionAggregator(0, settings(), next_offset=7).offset == 7


def test_streams_beyond_the_limit_are_dead_letters_and_the_others_go_on() -> None:
    learner = PartitionLearner(0, settings("limits.streams=2"))
    keys = [b"one", b"two", b"three", b"one", b"three", b"two"]
    for offset, key in enumerate(keys):
        for _ in learner.consume(message(offset, event(offset), key)):
            pass
    _, dead = learner.take_outbox()
    assert sorted(learner.streams) == ["one", "two"]
    assert [(one.message.offset, one.found[0].reason) for one in dead] == [
        (2, "too_many_streams"),
        (4, "too_many_streams"),
    ]
    assert "limits.streams" in dead[0].found[0].detail and "'three'" in dead[0].found[0].detail


def test_an_id_taken_for_the_target_costs_little_and_is_said() -> None:
    """If 1,000 ids come as labels, few are learned. The stream continues with events that have one of them, or none."""
    learner = PartitionLearner(0, settings("model.name=tree", "limits.classes=150", "limits.label_bytes=40"))
    ids = [{**event(n), "y": f"customer {n} {'x' * 20}"} for n in range(1_000)]
    log = [message(n // 10, ids[n : n + 10]) for n in range(0, 1_000, 10)]
    log += [message(100, {**event(1_000), "y": ids[7]["y"]}), message(101, {"x": {"a": 1.0}})]
    log += [message(102, {**event(1), "y": "y" * 41})]
    for one in log:
        for _ in learner.consume(one):
            pass
    learner.cut()
    outbox, dead = learner.take_outbox()
    found = [found for one in dead for found in one.found]
    assert [one.reason for one in found] == ["too_many_classes"] * 850 + ["label_too_long"]
    assert "limits.classes" in found[0].detail and "limits.label_bytes" in found[-1].detail
    assert all(len(one.detail) < 400 for one in found)
    records = [predictions.decode(record) for _, record in outbox.predictions]
    assert len(records) == 152 and learner.streams["s"].learner.state.rows == 151
    for record in records:
        named = len(record.probabilities or ())
        assert named <= predictions.NAMED and (record.others is None) == (record.seq <= predictions.NAMED)
        total = sum((record.probabilities or {}).values()) + (record.others.probability if record.others else 0.0)
        assert record.probabilities is None or total == pytest.approx(1.0)
    assert max(len(record) for _, record in outbox.predictions) < 20_000


def test_the_loss_is_that_of_all_classes_whatever_is_named() -> None:
    """With more classes than a record names the loss of one that is not named stays finite and what it was."""
    given = settings("model.name=tree", "limits.classes=200", "explain.loss=brier")
    learner = PartitionLearner(0, given)
    for number in range(600):
        for _ in learner.consume(message(number, {**event(number), "y": f"c{number % 180:03}"})):
            pass
    learner.cut()
    outbox, _ = learner.take_outbox()
    cut = [one for one in map(predictions.decode, (record for _, record in outbox.predictions)) if one.others]
    unnamed = [one for one in cut if one.target not in (one.probabilities or {})]
    assert len(cut) > 300 and unnamed
    for record in unnamed:
        known = sum(chance**2 for chance in (record.probabilities or {}).values())
        assert record.loss is not None and known + 1.0 <= record.loss + 2 * (record.others.probability or 0.0) + 1e-9


def test_a_reset_mark_is_used_where_it_was_not_before_and_by_nobody_else() -> None:
    """A mark that a predecessor used lies before its stream's first offset. A mark that it ignored stays ignored."""
    log = [*LOG[:10], message(10, events.RESET), *[message(11 + n, [event(k) for k in range(5)]) for n in range(4)]]
    learner = PartitionLearner(0, settings())
    ended = [(one.epoch, learner.position) for part in log for one in learner.consume(part) if one.ended]
    assert ended == [(0, Position(10, 0))]
    stream = learner.streams["s"]
    assert (stream.learner.epoch, stream.learner.state.rows, stream.first_offset) == (1, 20, 11)

    silent = PartitionLearner(0, settings(), silent_until=Position(14, 0))
    assert not [one for part in log for one in silent.consume(part) if one.ended]
    assert (silent.streams["s"].learner.epoch, silent.streams["s"].learner.state.rows) == (0, 70)

    at_mark = PartitionLearner(0, settings(), silent_until=Position(10, 0))
    found = [one for part in log for one in at_mark.consume(part) if one.ended]
    assert [one.epoch for one in found] == [0]
    first, *rest = at_mark.take_outbox()[0].requests
    assert (first.ends, first.first_row, first.epoch) == (True, 50, 0) and {one.epoch for one in rest} <= {1}
    assert at_mark.streams["s"].learner.state.rows == 20


def test_what_is_rejected_after_a_reset_mark_is_of_the_next_epoch() -> None:
    learner = PartitionLearner(0, settings())
    log = [
        *LOG[:2],
        message(2, b"no event"),
        message(3, events.RESET),
        message(4, b"no event"),
        message(5, None, b"\xff"),
    ]
    for part in log:
        for _ in learner.consume(part):
            pass
    assert [one.epoch for one in learner.take_outbox()[1]] == [0, 1, 0]
