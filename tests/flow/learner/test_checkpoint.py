"""Laws of checkpoints: a successor sends what its predecessor would have sent, and what is not authentic is not opened.

What is read is plain data if the model learns in compiled code. `tests/flow/learner/test_stream_state.py` has the laws
of such data.
"""

import pickle
from dataclasses import fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasstream.app.configuration import load
from glasstream.base.errors import AuthenticationError, ModelError, StateError
from glasstream.events.message import Message, Position
from glasstream.flow.learner.checkpoint import KIND, newly_sealed, opened, saved, verified
from glasstream.flow.learner.partition import PartitionLearner
from glasstream.flow.learner.stream_state import StreamState, reason_for_key
from glasstream.flow.learner.stream_state import encode as encode_state
from glasstream.flow.settings import Settings
from glasstream.models.codec.authentication import Key, seal
from glasstream_topics.checkpoints import PICKLE, PLAIN, SEALED, Checkpoint, decode, encode
from tests.support.learner import BASE, Collected, event, message, same
from tests.support.learner_checkpoints import LOG, METHODS, PLACE, VARIANTS, checkpoint_of

KEY = b"a key of sixteen bytes"


def key_of(settings: Settings) -> Key | None:
    """A key only where a pickle needs one."""
    return KEY if reason_for_key(settings) else None


def checkpoints(settings: Settings, *, at_rest: bool = False) -> tuple[Collected, list[Checkpoint]]:
    """Everything that is sent, and the state at every snapshot on the way, or at rest after every event."""
    key = key_of(settings)
    learner = PartitionLearner(0, settings)
    collected, found = Collected(), []
    for one in LOG:
        for stream in learner.consume(one):
            if at_rest:
                learner.cut()
            if at_rest or stream.at_snapshot:
                found.append(checkpoint_of(learner, at_rest=at_rest, key=key))
                assert stream.state.rows == 0 or found[-1].form == (PLAIN if key is None else PICKLE)
    collected.take(learner)
    return collected, found


def until(learner: PartitionLearner, end: Position, log: list[Message]) -> None:
    """Learn, up to a position."""
    for one in log:
        for _ in learner.consume(one):
            if learner.position >= end:
                return
        if learner.position >= end:
            return


def handed_over(
    settings: Settings, at: Checkpoint, state: StreamState, further: int
) -> tuple[PartitionLearner, Collected]:
    """A successor that begins with a checkpoint, and what its predecessor, a little `further`, has sent."""
    place = Position(at.offset, at.used)
    first, collected = PartitionLearner(0, settings), Collected()
    until(first, Position(place.offset + further, place.used if not further else 0), LOG)
    collected.take(first)
    second = PartitionLearner(0, settings, first_offset=place.offset, silent_until=first.position)
    second.resume("s", state, place)
    return second, collected


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("further", [0, 3])
def test_a_successor_goes_on_from_any_checkpoint(variant: str, further: int) -> None:
    """It sends what its predecessor had not; what comes of both is what one alone would have sent."""
    settings = load(assignments=[*BASE, *METHODS, *VARIANTS[variant]])
    whole, found = checkpoints(settings)
    assert len(found) > 2
    for checkpoint in found[:: 1 if variant == "linear" else 5]:
        second, collected = handed_over(
            settings, checkpoint, opened(checkpoint, settings, key=key_of(settings)), further
        )
        assert [one.version for one in second.outbox.snapshots] == [checkpoint.rows]
        until(second, Position(len(LOG), 0), LOG[checkpoint.offset :])
        collected.take(second)
        versions = [version for version, _ in whole.snapshots]
        later = versions[versions.index(checkpoint.rows) :]
        assert [version for version, _ in collected.snapshots][-len(later) :] == later
        if variant != "not compiled":
            mine, theirs = dict(collected.snapshots), dict(whole.snapshots)
            assert all(repr(mine[version]) == repr(theirs[version]) for version in mine), "snapshots are the same"
        collected.snapshots = whole.snapshots
        same(collected, whole)


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("further", [0, 3])
def test_a_successor_goes_on_from_a_state_at_rest(variant: str, further: int) -> None:
    """From any checkpoint, a learner of a compiled model knows the newest snapshot and makes the same later ones."""
    settings = load(assignments=[*BASE, *METHODS, *VARIANTS[variant]])
    whole, found = checkpoints(settings, at_rest=True)
    snapshots = dict(whole.snapshots)
    for checkpoint in found[:: 7 if variant == "linear" else 29]:
        state = opened(checkpoint, settings, key=key_of(settings))
        second, collected = handed_over(settings, checkpoint, state, further)
        newest = [version for version in snapshots if version <= checkpoint.rows][-1:]
        assert [one.version for one in second.outbox.snapshots] == (newest if variant != "not compiled" else [])
        until(second, Position(len(LOG), 0), LOG[checkpoint.offset :])
        collected.take(second)
        assert {version for version, _ in collected.snapshots} == snapshots.keys()
        if variant != "not compiled":
            assert all(repr(one) == repr(snapshots[version]) for version, one in collected.snapshots), "byte for byte"
        collected.snapshots = whole.snapshots
        same(collected, whole)


def test_a_state_is_taken_at_snapshots_only() -> None:
    learner = PartitionLearner(0, load(assignments=BASE))
    marks = [(stream.state.rows, stream.at_snapshot) for one in LOG[:20] for stream in learner.consume(one)]
    at = {rows for rows, mark in marks if mark}
    assert at and at < {rows for rows, _ in marks}


def test_a_checkpoint_holds_no_password() -> None:
    settings = load(
        assignments=[*BASE, "explain.methods=ipfi,isage,ipdp"],
        environment={"GLASSTREAM_KAFKA_SASL_PASSWORD": "hunter2"},
    )
    learner = PartitionLearner(0, settings)
    events = [event for one in LOG[:20] for event in learner.consume(one)]
    learner.cut()
    assert events
    state = pickle.dumps(learner.state("s", at_rest=True), protocol=5)
    plain = checkpoint_of(learner, at_rest=True)
    assert b"_reservoir" in state and b"hunter2" not in state
    assert b"reservoir" in plain.state and b"hunter2" not in plain.state


def test_a_successor_judges_classes_as_its_predecessor_would() -> None:
    """Classes are counted from the beginning of the stream, not from the checkpoint."""
    settings = load(assignments=[*BASE, "model.name=tree", "limits.classes=4"])
    log = [message(n, {**event(n), "y": f"class {n % (2 + n // 20)}"}) for n in range(200)]
    first, states = PartitionLearner(0, settings), []
    whole = Collected()
    for one in log:
        for stream in first.consume(one):
            if stream.at_snapshot:
                states.append(replace(checkpoint_of(first), offset=one.offset + 1))
    whole.take(first)
    assert len(whole.dead) > 20 and len(states) > 5
    for checkpoint in states:
        offset = checkpoint.offset
        second, collected = PartitionLearner(0, settings, first_offset=offset), Collected()
        second.resume("s", opened(checkpoint, settings, key=None), Position(offset, 0))
        until(second, Position(len(log), 0), log[offset:])
        collected.take(second)
        assert collected.predictions == whole.predictions[-len(collected.predictions) :]
        assert collected.dead == whole.dead[len(whole.dead) - len(collected.dead) :]
        assert len(collected.predictions) + len(collected.dead) == len(log) - offset


def test_names_that_are_not_kept_make_no_state_larger() -> None:
    """A key of a thousand characters in each event is remembered nowhere."""
    learner = PartitionLearner(0, load(assignments=[*BASE, "limits.features=4"]))
    sizes = []
    for number in range(1_500):
        x = {"a": float(number % 7), "b": float(number % 3), "c": 1.0, "d": 2.0, f"{number} {'z' * 1_000}": 1.0}
        for _ in learner.consume(message(number, {"x": x, "y": number % 7 > 3})):
            pass
        if number % 500 == 499:
            learner.cut()
            learner.take_outbox()
            sizes.append(len(checkpoint_of(learner, at_rest=True).state))
    assert max(sizes) - min(sizes) < 2_000, sizes


SETTINGS = load(assignments=BASE)


def _state_of_a_new_stream() -> StreamState:
    learner = PartitionLearner(0, SETTINGS)
    list(learner.consume(message(0, {"x": {"a": 1.0}})))
    learner.cut()
    return learner.state("s", at_rest=True)


STATE = _state_of_a_new_stream()


def checkpoint(body: bytes, rows: int = 8, key: bytes = KEY, form: str = PICKLE) -> Checkpoint:
    place = {"epoch": 0, "rows": rows, "seqs": 9, "offset": 1, "used": 0, "fingerprint": {}, "form": form}
    return replace(PLACE, rows=rows, form=form, state=seal(body, kind=KIND, stream="s", key=key, **place))


class Explosive:
    """Would execute something when it is opened."""

    def __reduce__(self) -> tuple[object, ...]:
        return pytest.fail, ("it was opened",)


@pytest.mark.parametrize(
    "forged",
    [
        checkpoint(pickle.dumps(Explosive()), key=b"another key of sixteen bytes"),
        replace(checkpoint(pickle.dumps(Explosive())), rows=9),
        replace(checkpoint(pickle.dumps(Explosive())), stream="t"),
        replace(checkpoint(pickle.dumps(Explosive()), form=SEALED), form=PICKLE),
        replace(checkpoint(b""), state=b"x"),
        replace(checkpoint(b""), state=b""),
    ],
    ids=["another key", "another row", "another stream", "another form", "short", "empty"],
)
def test_what_is_not_authentic_is_not_opened(forged: Checkpoint) -> None:
    with pytest.raises(StateError, match=r"cannot open the checkpoint of stream '[st]' at row \d: .*(HMAC|sealed for)"):
        opened(forged, SETTINGS, key=KEY)


@pytest.mark.parametrize("body", [b"", b"\x80\x05X", pickle.dumps({"rows": 3})])
def test_a_state_of_another_version_is_refused(body: bytes) -> None:
    with pytest.raises(StateError, match=r"the checkpoint of stream 's' at row 8.*epoch"):
        opened(checkpoint(body), SETTINGS, key=KEY)


@pytest.mark.parametrize("body", [b"", b"\x80\x05X", pickle.dumps(Explosive())])
@pytest.mark.parametrize("form", [PLAIN, SEALED])
def test_what_should_be_plain_data_is_never_unpickled(body: bytes, form: str) -> None:
    made = checkpoint(body, form=SEALED) if form == SEALED else replace(PLACE, state=body)
    with pytest.raises(StateError, match=r"the checkpoint of stream 's' at row 8 cannot be used: .*new epoch"):
        opened(made, SETTINGS, key=KEY if form == SEALED else None)


def test_there_is_no_pickle_without_a_key_and_none_of_what_cannot_be_pickled() -> None:
    learner = PartitionLearner(0, load(assignments=[*BASE, *VARIANTS["not compiled"]]))
    for one in LOG[:4]:
        list(learner.consume(one))
    learner.cut()
    with pytest.raises(AuthenticationError, match="GLASSTREAM_HMAC_KEY"):
        checkpoint_of(learner, at_rest=True)
    learner.streams["s"].learner.state.model.extra = lambda: None
    with pytest.raises(ModelError, match=r"cannot be pickled.*checkpoint\.seconds = 0"):
        checkpoint_of(learner, at_rest=True, key=KEY)


@pytest.mark.parametrize(
    ("variant", "why"),
    [
        ("linear", None),
        ("tree", None),
        ("conditional removal", "isage.removal=conditional keeps trees of River"),
        ("not compiled", "the model of classification learns in River: "),
    ],
)
def test_a_key_is_needed_only_for_what_stays_in_river(variant: str, why: str | None) -> None:
    reason = reason_for_key(load(assignments=[*BASE, *METHODS, *VARIANTS[variant]]))
    assert reason is None if why is None else str(reason).startswith(why)


def test_a_worker_with_a_key_refuses_what_was_saved_without_one() -> None:
    with pytest.raises(StateError, match="saved without an HMAC key, and this worker has one; unset"):
        opened(PLACE, SETTINGS, key=KEY)
    with pytest.raises(StateError, match="needs a key"):
        opened(checkpoint(b"", form=SEALED), SETTINGS, key=None)


NATURALS = st.integers(0, 2**53)
SETTING = st.none() | st.booleans() | NATURALS | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5)
PLACES = st.builds(
    Checkpoint,
    stream=st.text(min_size=1, max_size=5),
    epoch=NATURALS,
    rows=NATURALS,
    seqs=NATURALS,
    offset=NATURALS,
    used=NATURALS,
    fingerprint=st.dictionaries(st.text(max_size=5), SETTING, max_size=3),
    form=st.just(PLAIN),
    state=st.just(b""),
)


@given(place=PLACES, other=PLACES, names=st.sets(st.sampled_from([one.name for one in fields(Checkpoint)][:-2])))
def test_a_sealed_body_opens_in_its_own_checkpoint_only(place: Checkpoint, other: Checkpoint, names: set[str]) -> None:
    """A body is refused under any other stream, epoch, rows, seqs, offset, used or fingerprint."""
    made = saved(STATE, place, key=KEY)
    kept = decode(encode(made))
    assert verified(kept, key=KEY) == encode_state(STATE)
    moved = replace(kept, **{name: getattr(other, name) for name in names})
    if encode(moved) == encode(kept):
        return
    with pytest.raises(StateError, match=r"cannot open .*expected a body sealed for it, got one sealed for"):
        opened(moved, SETTINGS, key=KEY)


@given(keys=st.lists(st.binary(min_size=16, max_size=40), min_size=3, max_size=5, unique=True))
def test_of_several_keys_the_first_signs_and_any_verifies(keys: list[bytes]) -> None:
    made = saved(STATE, PLACE, key=tuple(keys))
    assert made == saved(STATE, PLACE, key=keys[0])
    assert verified(made, key=(*keys[1:], keys[0])) == encode_state(STATE)
    assert newly_sealed(made, key=tuple(keys)) and not newly_sealed(made, key=(*keys[1:], keys[0]))
    with pytest.raises(StateError, match="its HMAC does not match"):
        opened(made, SETTINGS, key=tuple(keys[1:]))
    with pytest.raises(AuthenticationError, match="at least 16 bytes"):
        saved(STATE, PLACE, key=(*keys, b"short"))
