"""Predictions that are written together have the bytes that each has alone."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasstream_topics.errors import RecordError
from glasstream_topics.predictions import Columns, Encoder, Estimate, Expected, Row
from tests.support.examples import examples

NUMBERS = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.sampled_from(["a", 'a",', ',"', "\\", "b", "%b", '","', "ü\n", "null", "\\", "c,d"]) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=9
)
ESTIMATES = st.builds(lambda value: [Estimate(0, 1, 2, Expected(value, 0.0, 1.0), Expected(value, 0.0, 1.0))], NUMBERS)
ROWS = st.builds(
    Row,
    seq=st.integers(0, 2**53),
    id=TEXTS,
    prediction=st.none() | TEXTS | NUMBERS,
    probabilities=st.none()
    | st.dictionaries(TEXTS, NUMBERS, max_size=4)
    | st.just({f"{number:03}": number / 7 for number in range(130)}),
    target=st.none() | TEXTS | NUMBERS,
    loss=st.none() | NUMBERS,
    metric_name=st.sampled_from(["accuracy", "mae"]),
    metric_value=st.none() | NUMBERS,
    model_version=st.integers(0, 2**53),
    ts=st.none() | st.integers(-(2**63), 2**63 - 1),
    estimates=st.none() | ESTIMATES,
)


def alone(encoder: Encoder, row: Row) -> bytes:
    return encoder.encode(**row._asdict(), loss_name="cross_entropy")


@given(st.lists(ROWS, max_size=9))
@examples(300)
def test_records_that_are_written_together_are_those_that_are_written_alone(rows: list[Row]) -> None:
    encoder = Encoder(3, 's"%b')
    assert encoder.encode_all(rows, "cross_entropy") == [alone(encoder, row) for row in rows]


@pytest.mark.parametrize("odd", [float("nan"), float("inf")])
def test_a_number_that_json_cannot_hold_is_refused(odd: float) -> None:
    good = Row(1, "a", "x", {"x": 0.5, "y": 0.5}, None, None, "accuracy", None, 0)
    with pytest.raises(RecordError, match="finite"):
        Encoder(0, "s").encode_all([good, good._replace(probabilities={"x": odd})], "cross_entropy")


@given(st.integers(1, 4), st.data())
@examples(100)
def test_records_of_one_form_are_written_together(classes: int, data: st.DataObject) -> None:
    names = data.draw(st.lists(TEXTS, min_size=classes, max_size=classes, unique=True))
    votes = st.permutations(names).flatmap(lambda order: st.fixed_dictionaries(dict.fromkeys(order, NUMBERS)))
    row = st.builds(
        Row,
        seq=st.integers(0, 2**53),
        id=TEXTS,
        prediction=st.sampled_from(names),
        probabilities=votes,
        target=st.none() | st.sampled_from(names),
        loss=st.none() | NUMBERS,
        metric_name=st.just("accuracy"),
        metric_value=st.none() | NUMBERS,
        model_version=st.integers(0, 2**53),
        ts=st.none() | st.integers(-(2**63), 2**63 - 1),
        estimates=st.none() | ESTIMATES,
    )
    rows, encoder = data.draw(st.lists(row, min_size=2, max_size=9)), Encoder(3, 's"%b')
    assert encoder._written_together(rows, "100 %") is not None
    assert encoder.encode_all(rows, "100 %") == [encoder.encode(**one._asdict(), loss_name="100 %") for one in rows]


@given(st.integers(0, 4), st.integers(0, 7), st.data())
@examples(150)
def test_columns_give_the_records_of_their_rows(classes: int, count: int, data: st.DataObject) -> None:
    """With 0 classes the predictions are numbers."""
    names = data.draw(st.lists(TEXTS, min_size=classes, max_size=classes, unique=True))

    def several(one: st.SearchStrategy[Any]) -> list[Any]:
        return data.draw(st.lists(one, min_size=count, max_size=count))

    seqs, ids, times = several(st.integers(0, 2**53)), several(TEXTS), several(st.none() | st.integers(-(2**63), 2**62))
    losses, metrics = several(st.none() | NUMBERS), several(st.none() | NUMBERS)
    labels: list[Any] = several(st.integers(0, classes - 1) if classes else NUMBERS)
    targets: list[Any] = several(st.integers(-1, classes - 1) if classes else st.none() | NUMBERS)
    votes = [several(NUMBERS) for _ in names] if data.draw(st.booleans()) else None
    columns = Columns(
        seqs, ids, names, np.array(labels, np.int64 if classes else np.float64),
        np.array(votes, np.float64).T.reshape(count, classes) if classes and votes is not None else None,
        np.array(targets, np.int64 if classes else np.float64), np.array(losses, np.float64),
        np.array(metrics, np.float64), seqs, times,
    )  # fmt: skip
    encoder = Encoder(3, 's"%b')
    assert encoder.encode_block(columns, "100 %", "accuracy") == [
        encoder.encode(
            seq=seqs[at], id=ids[at], prediction=names[labels[at]] if classes else labels[at],
            probabilities={name: column[at] for name, column in zip(names, votes, strict=True)}
            if classes and votes is not None else None,
            target=targets[at] if not classes else names[targets[at]] if targets[at] >= 0 else None,
            loss=losses[at], loss_name="100 %", metric_name="accuracy", metric_value=metrics[at],
            model_version=seqs[at], ts=times[at],
        )
        for at in range(count)
    ]  # fmt: skip
