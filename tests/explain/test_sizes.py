"""Upper bounds of what a block takes on its way, and blocks that are cut to fit a record."""

from itertools import chain

import numpy as np
import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from glasstream.app.configuration import load
from glasstream.events.message import Message
from glasstream.explain import explainer, sizes
from glasstream.explain.background import Background
from glasstream.explain.explainer import explain
from glasstream.flow.learner.partition import PartitionLearner
from glasstream.flow.reference import Reference
from glasstream.flow.settings import Settings
from glasstream.models.predictors.predictor import Output, Predictor
from glasstream_topics import contributions, requests
from glasstream_topics.requests import ExplainRequest
from tests.support.examples import examples

BASE = ("topics.events=1", "explain.reservoir=5", "snapshot.doubling=8", "snapshot.cadence=20", "snapshot.target=0")


class Failing:
    """A predictor that gives no number for some rows."""

    def __init__(self, predictor: Predictor, every: int) -> None:
        self._predictor, self._every = predictor, every
        self.task, self.features, self.classes = predictor.task, predictor.features, predictor.classes
        self.compiled = True

    def evaluate(self, rows: np.ndarray) -> Output:
        said = self._predictor.evaluate(rows)
        values = said.values.copy()
        failing = np.floor(np.nan_to_num(rows[:, 0])) % self._every == 0
        values[failing] = np.nan
        return Output(values, said.labels)


def learned(
    settings: Settings, log: list[bytes], *, cut_each: bool = False
) -> tuple[list[ExplainRequest], dict[int, Predictor]]:
    """The blocks, and the models by version."""
    learner = PartitionLearner(0, settings)
    models: dict[int, Predictor] = {}
    for offset, value in enumerate(log):
        for _ in learner.consume(Message("events", 0, offset, "ströme".encode(), value)):
            models |= {one.version: one.predictor for one in learner.outbox.snapshots}
            if cut_each:
                learner.cut()
    learner.cut()
    return learner.take_outbox()[0].requests, models


def stream(rows: int, numbers: int, texts: int, classes: int, text: str) -> list[bytes]:
    return [
        orjson.dumps(
            {
                "x": {f"n{j}{text}": (i * 7919 + j) % 97 / 9 for j in range(numbers)}
                | {f"t{j}": f"{text}{(i * 31 + j) % 13}" for j in range(texts)},
                "y": f"{text}{i * 17 % classes}" if classes else i % 5 / 3,
            }
        )
        for i in range(rows)
    ]


@given(
    methods=st.sampled_from(["ipfi", "isage", "ipdp", "ipfi,isage,ipdp", "ipfi,attributions", "ipdp,attributions"]),
    model=st.sampled_from(["tree", "linear"]),
    shape=st.tuples(st.integers(6, 40), st.integers(1, 6), st.integers(0, 3), st.sampled_from([0, 2, 3, 14])),
    text=st.text(max_size=12).filter(lambda text: "\x00" not in text),
    more=st.sampled_from(
        ["ipdp.points=3", "ipdp.categories=30", "isage.fresh=true", "explain.draws=4", "ipdp.grid=quantiles"]
    ),
    failing=st.sampled_from([0, 2, 3]),
)
@example(methods="ipfi", model="linear", shape=(60, 6, 0, 0), text="é" * 12, more="snapshot.cadence=100", failing=2)
@examples(60)
def test_the_bounds_hold(
    methods: str, model: str, shape: tuple[int, int, int, int], text: str, more: str, failing: int
) -> None:
    blocks, models = learned(load(assignments=[*BASE, f"model.name={model}", f"explain.methods={methods}", more]),
                             stream(*shape, text))  # fmt: skip
    for block in blocks:
        bounds = sizes.sizes(block)
        assert len(requests.encode(block)) <= bounds.block
        predictor = models[block.version]
        answers = explain(block, Failing(predictor, failing) if failing else predictor)
        encoded = [len(contributions.encode(answer)) for answer in answers]
        assert max(encoded) <= bounds.answer and sum(encoded) <= bounds.answers
    assert blocks


def test_the_bounds_are_not_much_too_high() -> None:
    """Else they would throttle: for a stream of ten features at most by a half."""
    for methods, most in (("ipfi,isage,ipdp", 1.5), ("ipdp", 1.5)):
        given_settings = load(assignments=[*BASE, "model.name=linear", f"explain.methods={methods}"])
        blocks, models = learned(given_settings, stream(200, 10, 0, 10, ""))
        block = max(blocks, key=lambda one: one.count)
        used = sum(len(contributions.encode(one)) for one in explain(block, models[block.version]))
        assert sizes.sizes(block).answers <= most * used + 7_000


def answered(blocks: list[ExplainRequest], models: dict[int, Predictor]) -> dict[int, tuple[str, bytes]]:
    """Per row: how it was answered, and with which numbers."""
    found = {}
    for answer in chain.from_iterable(explain(block, models.get(block.version)) for block in blocks):
        answer = contributions.decode(contributions.encode(answer))
        for i in range(answer.count):
            numbers = b"".join(answer.values[name][i].tobytes() for name in sorted(answer.values))
            texts = {slot: dict(named) for slot, named in answer.texts.items()}
            assert answer.kind == "failed" or set(texts) == {j for j, kind in enumerate(answer.kinds) if kind == 2}
            found[answer.first_row + i] = answer.kind, numbers
    return found


@pytest.mark.parametrize("budget", [0, 0.5])
def test_rows_that_the_answer_repeats_are_counted(budget: float) -> None:
    """With 300 numbers to a row, what is left of the bound is too little for an array that is not counted."""
    given_settings = load(assignments=[*BASE, "model.name=linear", "block.bytes=1000000", f"drift.budget={budget}"])
    blocks, models = learned(given_settings, stream(60, 300, 0, 0, ""))
    widest = max(blocks, key=lambda block: block.count)
    assert widest.count > 10 and widest.watched == (budget > 0)
    (answer,) = explain(widest, models[widest.version])
    size, bound = len(contributions.encode(answer)), sizes.sizes(widest).answer
    assert 8 * 300 * widest.count * (2 if budget else 1) < size <= bound < size + 8 * 300 * widest.count


@pytest.mark.parametrize("classes", [2, 12])
def test_the_learner_counts_the_rows_that_the_answer_repeats(classes: int) -> None:
    """Answers of iPDP are larger than their blocks."""
    both = [load(assignments=["explain.methods=ipdp", f"drift.budget={budget}"]) for budget in (0, 0.5)]
    unwatched, watched = (Background(one, "s").row_numbers(40, classes) for one in both)
    assert watched - unwatched == 40 + 1


def test_blocks_are_cut_to_fit_and_the_rows_get_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    blocks, models = learned(
        load(assignments=[*BASE, "model.name=tree", "explain.methods=ipfi,isage,ipdp"]), stream(60, 4, 2, 3, "é")
    )
    whole = answered(blocks, models)
    monkeypatch.setattr(sizes, "LARGEST", 12_000)
    cut = [piece for block in blocks for piece in sizes.pieces(block)]
    assert len(cut) > 2 * len(blocks) and not any(piece.refused for piece in cut)
    encoded = [
        *map(requests.encode, cut),
        *(contributions.encode(one) for b in cut for one in explain(b, models[b.version])),
    ]
    assert max(map(len, encoded)) <= 12_000
    assert answered([requests.decode(requests.encode(piece)) for piece in cut], models) == whole
    assert [piece.first_row for piece in cut if piece.flush_before] == [b.first_row for b in blocks if b.flush_before]


def test_a_row_that_no_broker_takes_is_refused_with_the_remedy_and_the_stream_goes_on() -> None:
    """Rows of 2,000 features for iSAGE with fresh draws take 160 MB; the narrow ones before them are explained."""
    narrow = stream(30, 3, 0, 2, "")
    wide = [
        orjson.dumps({"x": {f"n{j}": float(i * j % 7) for j in range(250)}, "y": str(i % 2)}) for i in range(30, 40)
    ]
    given_settings = load(assignments=[*BASE, "model.name=linear", "explain.methods=isage", "isage.fresh=true"])
    blocks, models = learned(given_settings, narrow + wide)
    cut = [piece for block in blocks for piece in sizes.pieces(block)]
    refused = [piece for piece in cut if piece.refused]
    assert [row for piece in refused for row in range(piece.first_row, piece.first_row + piece.count)] == list(
        range(30, 40)
    )
    assert "250 features" in refused[0].refused and "isage.removal=marginal" in refused[0].refused
    assert max(len(requests.encode(piece)) for piece in cut) < 1_000_000
    kinds = {
        row: kind for row, (kind, _) in answered([requests.decode(requests.encode(one)) for one in cut], models).items()
    }
    assert kinds == {row: "ok" if row < 30 else "failed" for row in range(5, 40)}
    published = [record for topic, record in Reference(given_settings).run(
        (b"s", value) for value in [*narrow, *wide, b'{"flush": true}']) if topic == "importance"]  # fmt: skip
    last = orjson.loads(published[-1])
    assert last["row"] == 39 and last["coverage"] == 25 / 35


@pytest.mark.parametrize("model", ["tree", "river.dummy:PriorClassifier"])
def test_whether_a_row_is_refused_does_not_depend_on_where_blocks_are_cut(
    model: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the classes nor the categories of rows behind it in its block count for a row."""
    log = [orjson.dumps({"x": {"n": i % 7, "t": f"{i // 2:0200}"}, "y": str(i // 8)}) for i in range(64)]
    methods = "explain.methods=ipfi,isage,ipdp"
    given_settings = load(assignments=[*BASE, f"model.name={model}", methods, "snapshot.cadence=40"])
    whole, _ = learned(given_settings, log)
    single, models = learned(given_settings, log, cut_each=True)
    assert len(whole) < len(single)
    mixed = 0
    for largest in range(7_000, 17_000, 500):
        monkeypatch.setattr(sizes, "LARGEST", largest)
        refused = [
            {row for block in blocks for piece in sizes.pieces(block) if piece.refused
             for row in range(piece.first_row, piece.first_row + piece.count)}
            for blocks in (whole, single)
        ]  # fmt: skip
        assert refused[0] == refused[1], largest
        mixed += 0 < len(refused[0]) < sum(block.count for block in whole)
    assert mixed > 3
    monkeypatch.setattr(sizes, "LARGEST", 14_000)
    cut = [piece for block in whole for piece in sizes.pieces(block)]
    expected, found = answered(whole, models), answered(cut, models)
    assert all(found[row] == expected[row] for row in found if found[row][0] == "ok")


def test_reasons_are_as_long_as_the_bound_says() -> None:
    assert explainer.REASON == sizes.REASON
