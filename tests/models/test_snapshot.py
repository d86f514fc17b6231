"""Snapshots: the same bytes for the same state, nothing executed, nothing believed."""

import os
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import forest, linear_model, multiclass, preprocessing, tree

from glasstream.base.errors import AuthenticationError, FrameError, GlasstreamError, ModelError
from glasstream.models.codec import snapshot
from glasstream.models.codec.authentication import open_sealed, seal
from glasstream.models.river.compile import compile_model
from glasstream_topics import frames
from tests.support.examples import examples
from tests.support.model_examples import EXAMPLES

KEY = b"k" * 32
MAKERS = {
    "forest": (lambda: forest.ARFClassifier(n_models=3, seed=1, grace_period=20), True, True),
    "tree": (lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=1, grace_period=20, delta=0.2), True, True),
    "regression forest": (lambda: forest.ARFRegressor(n_models=3, seed=1, leaf_prediction="mean"), False, True),
    "model forest": (lambda: forest.ARFRegressor(n_models=3, seed=1, leaf_prediction="model"), False, False),
    "linear": (lambda: preprocessing.StandardScaler() | linear_model.LinearRegression(), False, False),
    "one vs rest": (lambda: multiclass.OneVsRestClassifier(linear_model.LogisticRegression()), True, False),
}


@pytest.fixture(scope="module")
def learned(watch, odd):
    """By name: a model that has learned, its predictor, and rows."""
    made = {}
    for name, (make, classification, text) in MAKERS.items():
        watched = watch(make(), classification)
        events = odd(500, regression=not classification, text=text)
        for x, y in events:
            watched.learn(x, y)
        labels = watched.labels if classification else None
        made[name] = watched, compile_model(watched.model, watched.table, labels), watched.rows([x for x, _ in events])
    return made


def _encode(predictor, key=None):
    return snapshot.encode(predictor, stream="s", epoch=2, version=500, key=key)


def _forge(data, meta=None, **arrays):
    """The snapshot with other content, its checksum right."""
    frame = frames.decode(snapshot.inflate(data), snapshot.KIND, snapshot.VERSION)
    content = {**frame.meta, "model": {**frame.meta["model"], **(meta or {})}}
    return snapshot.compress(frames.encode(snapshot.KIND, snapshot.VERSION, content, frame.arrays | arrays))


@pytest.mark.parametrize("name", MAKERS)
def test_a_snapshot_says_the_same_bits(name, learned):
    _, predictor, rows = learned[name]
    read = snapshot.read(_encode(predictor), key=None)
    assert (read.stream, read.epoch, read.version) == ("s", 2, 500)
    said, again = predictor.evaluate(rows), read.predictor.evaluate(rows)
    assert said.values.tobytes() == again.values.tobytes()
    assert said.labels.tobytes() == again.labels.tobytes()
    same = ("task", "features", "classes", "compiled")
    assert [getattr(read.predictor, name) for name in same] == [getattr(predictor, name) for name in same]
    assert _encode(read.predictor) == _encode(predictor)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_form_comes_back_as_it_was(name, learned_examples, odd):
    watched = learned_examples[name]
    labels = watched.labels if watched.classification else None
    predictor = compile_model(watched.model, watched.table, labels)
    rows = watched.rows([x for x, _ in odd(100, text=EXAMPLES[name].text)])
    data = _encode(predictor)
    read = snapshot.decode(data, key=None)
    said, again = predictor.evaluate(rows), read.evaluate(rows)
    assert said.values.tobytes() == again.values.tobytes()
    assert said.labels.tobytes() == again.labels.tobytes()
    assert _encode(read) == data


@pytest.mark.parametrize("name", ["encoded softmax", "bag of scaled lines", "one vs rest, trees", "Mondrian forest"])
def test_missing_and_short_arrays_of_parts_are_refused(name, learned_examples):
    watched = learned_examples[name]
    labels = watched.labels if watched.classification else None
    data = _encode(compile_model(watched.model, watched.table, labels))
    frame = frames.decode(snapshot.inflate(data), snapshot.KIND, snapshot.VERSION)
    for array_name, array in frame.arrays.items():
        rest = {key: value for key, value in frame.arrays.items() if key != array_name}
        for arrays in (rest, rest | {array_name: array[None]}, rest | {array_name: array[:-1]}):
            if array.size:
                with pytest.raises(FrameError):
                    content = frames.encode(snapshot.KIND, snapshot.VERSION, frame.meta, arrays)
                    snapshot.decode(snapshot.compress(content), key=None)
    for parts in ([], None, [1], frame.meta.get("parts", []) * 2):
        if "parts" in frame.meta:
            with pytest.raises(FrameError):
                content = frames.encode(snapshot.KIND, snapshot.VERSION, frame.meta | {"parts": parts}, frame.arrays)
                snapshot.decode(snapshot.compress(content), key=None)


@pytest.mark.parametrize("name", ["forest", "regression forest", "linear"])
def test_the_same_state_gives_the_same_bytes(name, learned):
    """Also after a pickle, as a learner has it that was restored."""
    watched, predictor, _ = learned[name]
    restored = pickle.loads(pickle.dumps(watched.model))  # noqa: S301 - our own
    again = compile_model(restored, watched.table, watched.labels if watched.classification else None)
    assert _encode(again) == _encode(predictor)


def test_reading_a_compiled_predictor_executes_nothing(learned, monkeypatch):
    def refuse(*_):
        raise AssertionError("unpickled")

    data = [_encode(predictor) for _, predictor, _ in learned.values()]
    monkeypatch.setattr(pickle, "loads", refuse)
    for one in data:
        snapshot.decode(one, key=None)


@examples(150)
@given(at=st.integers(min_value=0), bit=st.integers(0, 7), cut=st.booleans())
def test_damaged_bytes_are_refused(learned, at, bit, cut):
    whole = _encode(learned["linear"][1])
    data = bytearray(whole)
    if cut:
        del data[at % len(data) :]
    else:
        data[at % len(data)] ^= 1 << bit
    try:
        read = snapshot.decode(bytes(data), key=None)
    except FrameError:
        return
    assert not cut, "a part is not the whole"
    assert _encode(read) == whole, "only bits that zstd does not look at may change"


def test_what_inflates_beyond_the_limit_is_refused(learned):
    data = _encode(learned["forest"][1])
    with pytest.raises(FrameError, match="inflate to at most 1000"):
        snapshot.read(data, key=None, limit=1_000)
    bomb = snapshot.compress(bytes(10**8))
    with pytest.raises(FrameError, match="inflate"):
        snapshot.read(bomb, key=None, limit=10**6)
    with pytest.raises(FrameError, match="inflate"):
        snapshot.decode(data + b"more", key=None)


def _changed(frame, name, at, value):
    array = frame[name].copy()
    array[at] = value
    return {name: array}


@pytest.fixture(scope="module")
def forest_arrays(learned):
    data = _encode(learned["forest"][1])
    return data, frames.decode(snapshot.inflate(data), snapshot.KIND, snapshot.VERSION).arrays


@pytest.mark.parametrize(
    ("name", "find", "value"),
    [
        ("first", lambda a: a["kind"] == 1, 0),  # back to an ancestor: a loop
        ("first", lambda a: a["kind"] == 0, 10**6),  # a leaf that is not there
        ("first", lambda a: a["kind"] == 0, -1),
        ("last", lambda a: a["kind"] == 1, 2**30),
        ("common", lambda a: a["kind"] != 0, 0),
        ("common", lambda a: a["kind"] != 0, -1),
        ("feature", lambda a: a["kind"] == 1, 99),
        ("feature", lambda a: a["kind"] == 1, -1),
        ("alternate", lambda a: a["kind"] != 0, 0),
        ("alternate", lambda a: a["kind"] != 0, 2**30),
        ("kind", lambda a: a["kind"] == 0, 1),
        ("kind", lambda a: a["kind"] == 0, 9),
        ("root", lambda a: a["root"] >= 0, 10**6),
        ("root", lambda a: a["root"] >= 0, -2),
        ("case_child", lambda a: a["case_child"] >= 0, 0),
        ("label", lambda a: a["label"] >= 0, 3),
        ("label", lambda a: a["label"] >= 0, -1),
        ("start", lambda a: a["start"] > 0, -1),
        ("start", lambda a: a["start"] > 0, 10**6),
        ("term_start", lambda a: a["term_start"] > 0, 10**6),
        ("term_feature", lambda a: a["term_feature"] >= 0, 99),
        ("term_first", lambda a: a["term_last"] < 0, 10**6),
        ("term_first", lambda a: a["term_last"] >= 0, -1),
        ("term_last", lambda a: a["term_last"] >= 0, 10**6),
        ("term_log", lambda a: a["term_last"] >= 0, 10**6),
        ("column", lambda a: a["column"] >= 0, 3),
    ],
)
def test_arrays_that_would_lead_a_kernel_astray_are_refused(name, find, value, forest_arrays):
    """Bounds are not checked while rows are evaluated, so nothing may get that far."""
    data, arrays = forest_arrays
    candidates = np.flatnonzero(find(arrays))
    assert candidates.size, "the forest holds such an entry"
    for at in {int(candidates[0]), int(candidates[len(candidates) // 2]), int(candidates[-1])}:
        with pytest.raises(FrameError, match="expected"):
            snapshot.decode(_forge(data, **_changed(arrays, name, at, value)), key=None)


def test_missing_short_and_foreign_arrays_are_refused(learned):
    for _, predictor, _ in learned.values():
        data = _encode(predictor)
        frame = frames.decode(snapshot.inflate(data), snapshot.KIND, snapshot.VERSION)
        for name, array in frame.arrays.items():
            for other in (array[:-1], array.astype("f4"), array[None]):
                if array.size:
                    with pytest.raises(FrameError):
                        snapshot.decode(_forge(data, **{name: other}), key=None)
            content = {key: value for key, value in frame.arrays.items() if key != name}
            with pytest.raises(FrameError):
                without = frames.encode(snapshot.KIND, snapshot.VERSION, frame.meta, content)
                snapshot.decode(snapshot.compress(without), key=None)


@pytest.mark.parametrize(
    "meta", [{"features": ["x"]}, {"features": [1]}, {"rule": "best"}, {"classes": []}, {"rule": 1}]
)
def test_names_that_do_not_fit_are_refused(meta, learned):
    with pytest.raises(FrameError):
        snapshot.decode(_forge(_encode(learned["forest"][1]), meta), key=None)


def test_a_node_with_two_ways_to_it_is_refused(learned):
    """Forward only is not enough: n nodes that share children and have alternates stand for 2**n."""
    _, predictor, _ = learned["tree"]
    n = 64
    kind = np.array([1, 0, 0] * n, "i1")[: 3 * n]
    first = np.arange(3 * n, dtype="i4") + 1
    first[kind == 0] = 0
    shared = np.minimum(np.arange(3 * n) + 3, 3 * n - 1).astype("i4")
    data = _forge(
        _encode(predictor),
        kind=kind,
        feature=np.zeros(3 * n, "i4"),
        threshold=np.zeros(3 * n),
        first=first,
        last=np.where(kind == 1, first + 1, 0).astype("i4"),
        common=np.where(kind == 1, shared, 0).astype("i4"),
        alternate=np.where(kind == 1, shared, -1).astype("i4"),
        case_value=np.zeros(0),
        case_child=np.zeros(0, "i4"),
        root=np.array([0], "i4"),
    )
    with pytest.raises(FrameError, match="one way to each node"):
        snapshot.decode(data, key=None)


def test_a_pickle_travels_under_its_seal(watch, odd):
    watched = watch(forest.ARFClassifier(n_models=3, seed=1), True)
    events = odd(200)
    for x, y in events:
        watched.learn(x, y)
    generic = watched.generic()
    data = _encode(generic, KEY)
    rows = watched.rows([x for x, _ in events[:40]])
    assert np.array_equal(snapshot.decode(data, key=KEY).evaluate(rows).values, generic.evaluate(rows).values)
    with pytest.raises(AuthenticationError, match="needs a key, there is none"):
        _encode(generic)


class _Bomb:
    def __reduce__(self):
        return os.mkdir, (os.environ["BOMB"],)


def test_a_pickle_is_not_opened_before_its_seal_is_verified(tmp_path, monkeypatch):
    monkeypatch.setenv("BOMB", str(tmp_path / "exploded"))

    def forged(sealed):
        origin = {"stream": "s", "epoch": 0, "version": 1}
        content = {"form": "generic", "origin": origin, "model": {}}
        arrays = {"sealed": np.frombuffer(sealed, np.uint8)}
        return snapshot.compress(frames.encode(snapshot.KIND, snapshot.VERSION, content, arrays))

    body = pickle.dumps(_Bomb())
    right = {"kind": snapshot.KIND, "stream": "s", "epoch": 0, "version": 1}
    for sealed, key in (
        (body, KEY),
        (seal(body, **right, key=b"another key of sixteen"), KEY),
        (seal(body, **right, key=KEY), None),
        (seal(body, **right, key=KEY)[:-1], KEY),
        (seal(body, **{**right, "stream": "other"}, key=KEY), KEY),
        (seal(body, **{**right, "version": 2}, key=KEY), KEY),
        (seal(body, **{**right, "epoch": 1}, key=KEY), KEY),
        (seal(body, **{**right, "kind": "checkpoint"}, key=KEY), KEY),
    ):
        with pytest.raises(AuthenticationError):
            snapshot.decode(forged(sealed), key=key)
    assert not (tmp_path / "exploded").exists()
    with pytest.raises(AuthenticationError, match="expected a sealed GenericPredictor"):
        snapshot.decode(forged(seal(body, **right, key=KEY)), key=KEY)
    assert (tmp_path / "exploded").exists(), "the body was dangerous all along"


def test_an_authentic_pickle_that_cannot_be_opened_is_named():
    body = b"cnot_a_module\nThing\n."
    sealed = seal(body, kind=snapshot.KIND, stream="s", epoch=0, version=1, key=KEY)
    with pytest.raises(ModelError, match="ModuleNotFoundError"):
        snapshot._unpickle(sealed, "s", 0, 1, KEY)


@given(body=st.binary(max_size=50), flip=st.integers(min_value=0))
def test_a_seal_holds_for_every_bit(body, flip):
    named = {"kind": "model", "stream": "s", "version": 7, "key": KEY}
    sealed = seal(body, **named)
    assert open_sealed(sealed, **named) == body
    damaged = bytearray(sealed)
    damaged[flip // 8 % len(damaged)] ^= 1 << flip % 8
    with pytest.raises(AuthenticationError):
        open_sealed(bytes(damaged), **named)


def test_a_short_key_is_refused():
    with pytest.raises(AuthenticationError, match="at least 16 bytes"):
        seal(b"", kind="model", stream="s", version=1, key=b"short")


@examples(60)
@given(data=st.binary(max_size=200))
def test_any_bytes_are_refused_with_an_error_of_ours(data):
    for candidate in (data, snapshot.compress(data)):
        with pytest.raises(GlasstreamError):
            snapshot.decode(candidate, key=KEY)
