"""A linear model learned in arrays predicts and becomes, bit for bit, what River's does."""

import math
import pickle
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import compose, linear_model, multiclass, optim, preprocessing

from glasstream.base.errors import FrameError, ModelError, NotCompilable
from glasstream.events.admission import Task
from glasstream.events.features import FeatureTable
from glasstream.models.online import families
from glasstream.models.online.linear.kernels import learn_rows
from glasstream.models.online.linear.live import LiveLinear
from glasstream.models.online.live import Columns
from glasstream.models.river.catalogue import model_factory
from glasstream.models.river.compile import compile_model
from glasstream.models.river.implicit import ImplicitRegression
from glasstream.models.river.live import take, to_river
from glasstream.models.stream_model import StreamModel
from tests.support.equality import blocks
from tests.support.examples import examples, some
from tests.support.learning_streams import data_set, made_streams
from tests.support.live_models import resealed

Event = tuple[dict[str, float], Any]


def pipeline(kind: type, **parameters: Any) -> Any:
    return preprocessing.StandardScaler() | kind(**parameters)


MODELS: dict[str, Callable[[], Any]] = {
    "regression": lambda: pipeline(linear_model.LinearRegression),
    "regression, implicit": lambda: pipeline(ImplicitRegression, intercept_lr=optim.schedulers.InverseScaling(0.5)),
    "regression, other implicit parameters": lambda: pipeline(
        ImplicitRegression,
        optimizer=optim.SGD(0.3),
        intercept_lr=optim.schedulers.InverseScaling(0.3, 0.7),
        clip_gradient=0.5,
    ),
    "binary": lambda: pipeline(linear_model.LogisticRegression),
    "one vs rest": lambda: multiclass.OneVsRestClassifier(pipeline(linear_model.LogisticRegression)),
    "regression, other parameters": lambda: pipeline(
        linear_model.LinearRegression, optimizer=optim.SGD(0.3), intercept_init=2, intercept_lr=0, clip_gradient=0.5
    ),
    "one vs rest, other parameters": lambda: multiclass.OneVsRestClassifier(
        compose.Pipeline(
            ("scale", preprocessing.StandardScaler()),
            ("learn", linear_model.LogisticRegression(optim.SGD(2.0), intercept_init=-0.5, clip_gradient=0.1)),
        )
    ),
}
every_kind = pytest.mark.parametrize("kind", MODELS)


# --- Equality ---------------------------------------------------------------------------------------------------------
def described(model: Any) -> str:
    """All that a River model consists of, as text, for which NaN is NaN; the order of names counts for nothing."""
    if isinstance(model, multiclass.OneVsRestClassifier):
        members = [(label, described(member)) for label, member in model.classifiers.items()]
        return repr([members, described(model.classifier)])
    scaler, linear = model.steps.values()
    dicts = (scaler.counts, scaler.means, scaler.vars, linear.weights)
    power = getattr(linear.intercept_lr, "power", 0)
    rates = (linear.optimizer.lr.learning_rate, linear.intercept_lr.learning_rate, power)
    numbers = (*rates, linear.intercept_init, linear.clip_gradient, linear.intercept)
    return repr(
        [
            [type(scaler), type(linear), list(model.steps), linear.optimizer.n_iterations, *map(float, numbers)],
            *(sorted(one.items()) for one in dicts),
        ]
    )


def asked(model: Any, x: dict[str, Any], kind: str) -> str:
    if kind.startswith("regression"):
        return repr(float(model.predict_one(x)))
    return repr([(label, float(vote)) for label, vote in model.predict_proba_one(x).items()])


def fitting(kind: str, events: Sequence[Event]) -> list[Event]:
    """Return the events with numbers only, and with targets that a kind of model learns."""
    labels = list(dict.fromkeys(y for _, y in events))
    stream = []
    for x, y in events:
        numbers = {name: value for name, value in x.items() if not isinstance(value, str)}
        target = y
        if kind == "binary":
            target = y != labels[0]
        elif kind.startswith("regression"):
            target = labels.index(y) * 1.7 + numbers.get("n0", 0.25)
        stream.append((numbers, target))
    return stream


def by_block(live: LiveLinear, events: Sequence[Event], kind: str, most: int = 200) -> list[str]:
    """Predict and learn a stream in blocks; per event what `asked` returns of River."""
    answers = []
    for columns, targets in blocks(events, most):
        if kind.startswith("regression"):
            answers += [repr(value) for value in live.predict_learn_numbers(columns, np.array(targets)).values.tolist()]
            continue
        learned = live.predict_learn_block(columns, live.numbers_of(targets))
        classes = live.classes
        for votes, sequence, label in zip(*(part.tolist() for part in learned), strict=True):
            pairs = [(classes[number], votes[number]) for number in sequence if number >= 0]
            assert label == (live.numbers[max(dict(pairs), key=dict(pairs).get)] if pairs else -1)  # type: ignore[arg-type]
            answers.append(repr(pairs))
    return answers


def by_row(model: Any, events: Sequence[Event], kind: str) -> list[str]:
    answers = []
    for x, y in events:
        answers.append(asked(model, x, kind))
        model.learn_one(x, y)
    return answers


def check_same(make: Callable[[], Any], kind: str, events: Sequence[Event]) -> None:
    river, rows, many = make(), take(make()), take(make())
    expected = by_row(river, events, kind)
    assert by_row(rows, events, kind) == expected
    assert by_block(many, events, kind) == expected
    assert described(to_river(rows)) == described(to_river(many)) == described(river)


@every_kind
@given(events=made_streams(most=150))
@examples(40)
def test_made_streams(kind: str, events: list[Event]) -> None:
    check_same(MODELS[kind], kind, fitting(kind, events))


ODD = st.one_of(
    st.floats(-1e3, 1e3), st.integers(-50, 50), st.booleans(), st.sampled_from([0.0, -0.0, 1e-300, 1e150, math.inf])
)


@every_kind
@given(
    events=st.lists(
        st.tuples(st.dictionaries(st.sampled_from("abcdefgh"), ODD, max_size=6), st.integers(0, 4), st.integers(0, 2)),
        max_size=60,
    )
)
@examples(60)
def test_events_of_any_form_with_and_without_labels(kind: str, events: list[tuple[dict[str, Any], int, int]]) -> None:
    river, live = MODELS[kind](), take(MODELS[kind]())
    for x, y, asked_and_learned in events:
        if asked_and_learned != 1:
            assert asked(live, x, kind) == asked(river, x, kind)
        if asked_and_learned != 0:
            target = bool(y % 2) if kind == "binary" else y
            river.learn_one(x, target)
            live.learn_one(x, target)
    assert described(to_river(live)) == described(river)


CLASSIFIED = (
    *("elec2", "phishing", "keystroke", "outdoor", "poker_hand_25k", "powersupply", "adult", "weather_noaa"),
    *("bank_marketing", "breast_cancer_wdbc", "chess_online", "spam_assassin_top500"),
)
NUMBERED = (
    *("abalone", "air_quality", "auto_mpg", "bike_hourly", "california_housing", "communities_crime", "concrete"),
    *("cpu_act", "cpu_small", "superconductor_sample", "wine_red"),
)
SETS = [(kind, name) for name in CLASSIFIED for kind in ("binary", "one vs rest")]
SETS += [(kind, name) for name in NUMBERED for kind in ("regression", "regression, implicit")]


def check_data_set(folder: Path, kind: str, name: str, rows: int) -> None:
    events = data_set(folder, name, rows)
    events = [(x, float(y)) for x, y in events] if kind.startswith("regression") else fitting(kind, events)
    numbers = [({name: value for name, value in x.items() if not isinstance(value, str)}, y) for x, y in events]
    check_same(MODELS[kind], kind, numbers)


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("binary", "elec2"),
        ("one vs rest", "keystroke"),
        ("regression", "auto_mpg"),
        ("regression, implicit", "communities_crime"),
    ],
)
def test_a_part_of_a_data_set(data_dir: Path, kind: str, name: str) -> None:
    check_data_set(data_dir, kind, name, 600)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "name"),
    some(
        [
            ("binary", "elec2"),
            ("binary", "adult"),
            ("one vs rest", "outdoor"),
            ("one vs rest", "poker_hand_25k"),
            ("regression", "bike_hourly"),
            ("regression", "communities_crime"),
            ("regression, implicit", "bike_hourly"),
            ("regression, implicit", "superconductor_sample"),
        ],
        SETS,
    ),
)
def test_a_data_set(data_dir: Path, kind: str, name: str) -> None:
    """Numbers, missing values, 10 and 40 classes, and 102 features."""
    check_data_set(data_dir, kind, name, 10_000 if kind != "one vs rest" else 3_000)


# --- Other forms ------------------------------------------------------------------------------------------------------
@every_kind
@given(events=made_streams(most=120), share=st.floats(0, 1))
@examples(25)
def test_a_model_that_has_learned_is_taken_over_given_back_and_saved(
    kind: str, events: list[Event], share: float
) -> None:
    stream, river = fitting(kind, events), MODELS[kind]()
    cut = int(share * len(stream))
    by_row(river, stream[:cut], kind)
    live = take(river)
    given_back, successor = to_river(live), LiveLinear.from_bytes(live.to_bytes())
    assert described(given_back) == described(river)
    assert successor.to_bytes() == live.to_bytes()
    expected = by_row(river, stream[cut:], kind)
    assert by_block(live, stream[cut:], kind) == by_block(successor, stream[cut:], kind) == expected
    assert by_row(given_back, stream[cut:], kind) == expected
    assert successor.to_bytes() == live.to_bytes()
    assert described(to_river(live)) == described(given_back) == described(river)


@every_kind
@given(events=made_streams(most=100))
@examples(20)
def test_explainers_get_the_bytes_of_the_compiled_river_model(kind: str, events: list[Event]) -> None:
    stream, live, table = fitting(kind, events), take(MODELS[kind]()), FeatureTable()
    table.encode({"unknown": 1.0})
    for x, _ in stream:
        table.encode(x)
    by_block(live, stream, kind)
    labels = {label: str(label) for label in live.classes}
    given = [name != "n1" for name in table.names]
    for inputs in (None, given):
        mine = live.compiled(table, labels, given=inputs)
        rivers = compile_model(to_river(live), table, labels or None, given=inputs)
        (meta, arrays), (expected, theirs) = mine.pack(), rivers.pack()
        assert meta == expected
        assert {name: array.tobytes() for name, array in arrays.items()} == {
            name: array.tobytes() for name, array in theirs.items()
        }


def test_more_features_and_forms_than_there_is_room_for_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("glasstream.models.online.linear.live._FORMS", 3)
    river, live = MODELS["regression"](), take(MODELS["regression"]())
    events = [({f"f{(n * place) % 90}": float(place) for place in range(1, 8)}, n / 200) for n in range(200)]
    assert by_row(live, events, "regression") == by_row(river, events, "regression")
    assert len(live._forms) <= 3
    assert described(to_river(live)) == described(river)


def drifting(count: int) -> Iterator[tuple[dict[str, float], bool]]:
    for number in range(count):
        a, b = (number * 7919 % 1000) / 1000, (number * 104729 % 997) / 997
        x = {"a": a, "b": b * (1 + number / count), "c": a * b}
        if number % 7 == 3:
            del x["b"]
        yield x, a + b > 1


def test_a_pickled_model_goes_on_where_it_was() -> None:
    stream = list(drifting(600))
    model = StreamModel(model_factory("linear", 1), Task.CLASSIFICATION)
    assert isinstance(model.live, LiveLinear)
    for x, y in stream[:300]:
        model.predict(x)
        model.learn(x, str(y))
    successor = pickle.loads(pickle.dumps(model))  # noqa: S301
    assert isinstance(successor.live, LiveLinear)
    for x, y in stream[300:]:
        assert successor.predict(x) == model.predict(x)
        successor.learn(x, str(y))
        model.learn(x, str(y))
    assert described(successor.river) == described(model.river)


def test_a_third_class_is_learned_in_compiled_code_too() -> None:
    model = StreamModel(model_factory("linear", 1), Task.CLASSIFICATION)
    for number, (x, _) in enumerate(drifting(60)):
        model.predict(x)
        model.learn(x, "abc"[number % (2 if number < 30 else 3)])
    assert model.replaced and isinstance(model.live, LiveLinear)
    assert list(model.live.classes) == list(model.river.classifiers)


def test_new_classes_begin_where_they_are_learned_and_not_where_they_are_numbered() -> None:
    live, river = take(MODELS["one vs rest"]()), MODELS["one vs rest"]()
    numbers = live.numbers_of(["b", "a", "c"])
    columns = Columns(("f",), np.array([[1.0], [2.0], [3.0]]))
    answers = live.predict_learn_block(columns, numbers[[1, 0, 1]])
    rows = [({"f": 1.0}, "a"), ({"f": 2.0}, "b"), ({"f": 3.0}, "a")]
    assert answers.sequence.tolist() == [[-1, -1, -1], [1, -1, -1], [1, 0, -1]]
    by_row(river, rows, "one vs rest")
    assert described(to_river(live)) == described(river)
    assert LiveLinear.from_bytes(live.to_bytes()).to_bytes() == live.to_bytes()


def test_events_whose_votes_are_not_finite_are_left_out_if_so_wished() -> None:
    columns = Columns(("f", "g"), np.array([[1.0, 2.0], [math.inf, math.inf], [2.0, 3.0]]))
    for kind in ("binary", "one vs rest"):
        live, sparing = take(MODELS[kind]()), take(MODELS[kind]())
        for one in (live, sparing):
            by_row(one, [({"f": float(n), "g": -float(n)}, n > 4) for n in range(9)], kind)
        live.predict_learn_block(Columns(("f", "g"), columns.values[[0, 2]]), np.array([0, 1]))
        sparing.predict_learn_block(columns, np.array([0, 1, 1]), only_finite=True)
        assert described(to_river(sparing)) == described(to_river(live))
        sparing.predict_learn_block(columns, np.array([0, 1, 1]), only_finite=True, known=np.array([False, True, True]))
        live.predict_learn_block(columns, np.array([0, 1, 1]))
        assert described(to_river(sparing)) == described(to_river(live))
    live, sparing = take(MODELS["regression"]()), take(MODELS["regression"]())
    for one in (live, sparing):
        by_row(one, [({"f": float(n), "g": -float(n)}, n) for n in range(9)], "regression")
    live.predict_learn_numbers(Columns(("f", "g"), columns.values[[0, 2]]), np.array([0, 1]))
    sparing.predict_learn_numbers(columns, np.array([0, 1, 1]), within=1e60)
    assert described(to_river(sparing)) == described(to_river(live))


def test_arrays_of_any_layout_are_learned_by_the_same_machine_code() -> None:
    lives = [take(MODELS["binary"]()) for _ in range(2)]
    values, labels = np.arange(6.0).reshape(3, 2), np.array([1, 0, 1])
    lives[0].predict_learn_block(Columns(("a", "b"), values), labels)
    compiled = len(learn_rows.signatures)
    frozen = np.asfortranarray(values)
    frozen.setflags(write=False)
    lives[1].predict_learn_block(Columns(("a", "b"), frozen), labels.astype(np.int32))
    assert lives[0].to_bytes() == lives[1].to_bytes()
    assert len(learn_rows.signatures) == compiled


# --- Damage -----------------------------------------------------------------------------------------------------------
WORDS = (0, 1, 2, 3, 100, -1, 2**31, 2**62, -(2**63), 0x3FF0000000000000, 0x7FF8000000000000, 0x7FF0000000000000)


@every_kind
@given(events=made_streams(most=60), seed=st.integers(0, 2**32))
@examples(40)
def test_damaged_checkpoints_are_refused_or_harmless(kind: str, events: list[Event], seed: int) -> None:
    stream, live, source = fitting(kind, events), take(MODELS[kind]()), random.Random(seed)
    half = len(stream) // 2
    by_block(live, stream[:half], kind)
    data = live.to_bytes()
    for _ in range(20):
        forged = bytearray(data)
        for _ in range(source.choice((1, 1, 2, 8))):
            place = source.randrange(len(forged) // 8) * 8
            word = source.choice((*WORDS, source.getrandbits(63)))
            forged[place : place + 8] = word.to_bytes(8, "little", signed=True)
        with pytest.raises(FrameError):
            LiveLinear.from_bytes(bytes(forged) if bytes(forged) != data else data[:-1])
        with suppress(FrameError, ModelError):  # a forged list of classes has another class than the stream
            successor = LiveLinear.from_bytes(resealed(bytes(forged)))
            assert LiveLinear.from_bytes(successor.to_bytes()).to_bytes() == successor.to_bytes()
            by_row(successor, stream[half:], kind)
            to_river(successor)
            LiveLinear.from_bytes(successor.to_bytes())


@every_kind
def test_cut_checkpoints_and_those_of_another_family_are_refused(kind: str) -> None:
    live = take(MODELS[kind]())
    by_row(live, fitting(kind, [({"n0": float(n % 7)}, "yn"[n % 2]) for n in range(100)]), kind)
    data = live.to_bytes()
    for length in range(0, len(data), 13):
        with pytest.raises(FrameError):
            LiveLinear.from_bytes(data[:length])
    family, same = families.write(live)
    assert (family, same) == ("linear", data)
    with pytest.raises(FrameError):
        families.read("trees", data)


# --- What stays with River, and what is refused -----------------------------------------------------------------------
def separately() -> Any:
    model = MODELS["regression"]()
    model["StandardScaler"].learn_one({"a": 1.0})
    return model


def by_number() -> Any:
    model = MODELS["regression"]()
    model.learn_one({1: 2.0}, 1.0)
    return model


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        (linear_model.LogisticRegression(), "got LogisticRegression"),
        (pipeline(linear_model.LogisticRegression, l2=0.1), "neither l1 nor l2"),
        (pipeline(linear_model.LogisticRegression, l1=0.1), "neither l1 nor l2"),
        (pipeline(linear_model.LogisticRegression, optimizer=optim.Adam()), "optimizer SGD, got Adam"),
        (pipeline(linear_model.LogisticRegression, loss=optim.losses.Hinge()), "loss Log, got Hinge"),
        (pipeline(linear_model.LogisticRegression, loss=optim.losses.Log(2.0, 1.0)), "without weights"),
        (
            pipeline(linear_model.LogisticRegression, optimizer=optim.SGD(optim.schedulers.InverseScaling(1))),
            "a constant learning rate, got InverseScaling",
        ),
        (
            pipeline(linear_model.LinearRegression, intercept_lr=optim.schedulers.Optimal(optim.losses.Squared())),
            "InverseScaling of the intercept, got Optimal",
        ),
        (
            pipeline(linear_model.LinearRegression, intercept_lr=optim.schedulers.InverseScaling(1, 2)),
            "a power from 0 to 1, got 2",
        ),
        (pipeline(linear_model.LinearRegression, loss=optim.losses.Huber()), "loss Squared, got Huber"),
        (pipeline(linear_model.LinearRegression, initializer=optim.initializers.Normal(seed=1)), "initializer Zeros"),
        (pipeline(linear_model.LinearRegression, clip_gradient=math.inf), "a number for clip"),
        (preprocessing.StandardScaler(with_std=False) | linear_model.LinearRegression(), "with deviations"),
        (preprocessing.StandardScaler(window_size=10) | linear_model.LinearRegression(), "without window"),
        (preprocessing.MinMaxScaler() | linear_model.LinearRegression(), "before LinearRegression, got MinMaxScaler"),
        (preprocessing.StandardScaler() | MODELS["regression"](), "got StandardScaler | StandardScaler"),
        (preprocessing.StandardScaler() | linear_model.Perceptron(), "compiled code learns HoeffdingTreeClassifier"),
        (preprocessing.StandardScaler() | linear_model.PARegressor(), "compiled code learns HoeffdingTreeClassifier"),
        (multiclass.OneVsRestClassifier(linear_model.LogisticRegression()), "got LogisticRegression"),
        (preprocessing.StandardScaler() | MODELS["one vs rest"](), "got StandardScaler | OneVsRestClassifier"),
        (separately(), "have learned the same features"),
        (by_number(), "names of features to be texts"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_not_supported_is_named(model: Any, reason: str) -> None:
    with pytest.raises(NotCompilable, match=reason.replace("|", r"\|")):
        take(model)


def test_what_river_refuses_is_refused() -> None:
    for model in (MODELS["regression"](), take(MODELS["regression"]())):
        model.learn_one({"a": 1.0}, 1.0)
        model.learn_one({"a": 2.0}, 1.0)
        with pytest.raises(Exception, match=r"float|str"):
            model.predict_one({"a": "text"})


def test_blocks_of_another_form_are_refused_and_change_nothing() -> None:
    live, regression = take(MODELS["binary"]()), take(MODELS["regression"]())
    live.learn_one({"a": 1.0}, True)
    data, good, none = live.to_bytes(), np.zeros((1, 1)), np.array([-1])
    for columns, labels in (
        (Columns(("a", "a"), np.zeros((1, 2))), none),
        (Columns(("a",), np.zeros((1, 2))), none),
        (Columns(("a",), np.zeros(1)), none),
        (Columns(("a",), good.astype(np.float32)), none),
        (Columns(("a",), good), np.array([2])),
        (Columns(("a",), good), np.array([-2])),
        (Columns(("a",), good), np.array([0.5])),
        (Columns(("a",), good), np.array([0, 0])),
        (Columns(("t",), good, {"t": ("x",)}), none),
    ):
        with pytest.raises(ModelError):
            live.predict_learn_block(columns, labels)
        assert live.to_bytes() == data
    for wrong in (
        lambda: live.predict_learn_numbers(Columns(("a",), good), np.zeros(1)),
        lambda: regression.predict_learn_block(Columns(("a",), good), none),
        lambda: live.numbers_of(["b"]),
        lambda: take(MODELS["one vs rest"]()).numbers_of([1.5]),
        lambda: live.learn_one({1: 2.0}, True),
    ):
        with pytest.raises(ModelError):
            wrong()
    assert live.to_bytes() == data
