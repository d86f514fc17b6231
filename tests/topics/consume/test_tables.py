"""Records as tables: nothing is lost or moved on the way, and a column has the same type whatever the records hold."""

import sys
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np
import orjson
import pandas as pd
import polars as pl
import pytest

from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.app.operate.export import TABLES
from glasstream.base.errors import InputError
from glasstream_topics.consume import effects, importance, predictions, tables
from glasstream_topics.consume.tables import Layout, arrow, arrow_schema
from tests.support.golden_records import checked_in
from tests.support.writing import CURVE, ESTIMATE, Writer, curve, estimate

FAST = {"fetch.wait.max.ms": "10"}
PREDICTED = orjson.loads(checked_in("predictions.v1.json"))


@pytest.fixture
def broker(embedded: EmbeddedKafka) -> Iterator[EmbeddedKafka]:
    for topic in ("importance", "effects", "predictions"):
        embedded.create_topic(f"test.{topic}", 1)
    yield embedded


def leaves(value: Any) -> list[Any]:
    """Return the numbers and texts of a record, in order."""
    if isinstance(value, dict):
        return [leaf for one in value.values() for leaf in leaves(one)]
    if isinstance(value, list):
        return [leaf for one in value for leaf in leaves(one)]
    return [] if value is None else [value]


def _golden(topic: str) -> str:
    """Return the golden record of a topic's newest version."""
    return f"{topic}.v{TABLES[topic].versions[-1]}.json"


@pytest.mark.parametrize("topic", TABLES)
def test_every_value_of_a_record_is_in_its_rows(topic: str) -> None:
    record = TABLES[topic].decode(checked_in(_golden(topic)))
    layout = Layout(TABLES[topic].record)
    names = [column.name for column in layout.columns]
    assert len({*names}) == len(names)
    rows = [dict(zip(names, row, strict=True)) for row in layout.rows(record)]
    assert rows
    found = []
    for row in rows:
        for value in row.values():
            nested = isinstance(value, str) and value[:1] in ("{", "[")
            found += leaves(orjson.loads(value)) if nested else [value]
    fields = {name: value for name, value in msgspec.to_builtins(record).items() if name != "schema_version"}
    assert all(leaf in found for leaf in leaves(fields))


@pytest.mark.parametrize("topic", TABLES)
def test_columns_have_their_types_without_any_record(topic: str) -> None:
    layout = Layout(TABLES[topic].record)
    record = TABLES[topic].decode(checked_in(_golden(topic)))
    (batch,) = arrow(layout, [record])
    assert batch.schema == arrow_schema(layout)
    assert [batch.schema.field(column.name).nullable for column in layout.columns] == [
        c.nullable for c in layout.columns
    ]
    assert [*arrow(layout, [])] == []


def test_a_row_of_importance_is_a_feature_of_a_record(broker: EmbeddedKafka) -> None:
    Writer(broker.bootstrap, "test.importance").send(*(estimate(row) for row in range(3)))
    frame = importance(broker.bootstrap, prefix="test.", kafka=FAST, follow=False).to_pandas()
    expected = [
        (row, name, one["value"], np.nan if one["low"] is None else one["low"], one["rank"])
        for row in range(3)
        for name, one in ESTIMATE["features"].items()
    ]
    pd.testing.assert_frame_equal(
        frame[["row", "feature", "value", "low", "rank"]],
        pd.DataFrame(expected, columns=["row", "feature", "value", "low", "rank"]).astype({"feature": "category"}),
    )
    assert frame["rank"].dtype == np.int64 and isinstance(frame["stream"].dtype, pd.CategoricalDtype)


def test_a_row_of_effects_is_a_point_of_a_curve_and_polars_has_the_same_table(broker: EmbeddedKafka) -> None:
    changes = {"kind": "categorical", "grid": ["a", True], "curve": [1, 2.5], "margin": [None, 0.5], "ice": None}
    texts = orjson.dumps({**orjson.loads(curve("town", 5)), **changes})
    Writer(broker.bootstrap, "test.effects").send(curve("age", 4), texts)
    frame = effects(broker.bootstrap, prefix="test.", kafka=FAST, follow=False).to_polars()
    age, town = frame.filter(pl.col("feature") == "age"), frame.filter(pl.col("feature") == "town")
    assert age["point"].to_list() == [*range(len(CURVE["grid"]))]
    assert age["grid_number"].to_list() == CURVE["grid"] and age["grid"].null_count() == len(age)
    assert town.select("point", "grid", "grid_number", "curve", "margin").rows() == [
        (0, "a", None, 1.0, None), (1, "true", None, 2.5, 0.5),
    ]  # fmt: skip
    assert frame.schema["feature"] == pl.Categorical and frame.schema["curve"] == pl.Float64


def test_targets_may_be_classes_and_numbers_on_one_topic(broker: EmbeddedKafka) -> None:
    number = {**PREDICTED, "prediction": 2.0, "target": 1, "probabilities": None}
    Writer(broker.bootstrap, "test.predictions").send(
        *map(orjson.dumps, ({**PREDICTED, "target": "yes"}, number, {**PREDICTED, "target": None}))
    )
    table = predictions(broker.bootstrap, prefix="test.", kafka=FAST, follow=False).to_arrow()
    assert table["target"].to_pylist() == ["yes", None, None]
    assert table["target_number"].to_pylist() == [None, 1.0, None]


def test_a_topic_without_records_is_an_empty_table_with_all_columns(broker: EmbeddedKafka) -> None:
    frame = importance(broker.bootstrap, prefix="test.", kafka=FAST, follow=False).to_pandas()
    assert frame.empty and [*frame.columns] == [column.name for column in Layout(TABLES["importance"].record).columns]


def test_a_reader_that_never_ends_makes_no_table(broker: EmbeddedKafka) -> None:
    with (
        importance(broker.bootstrap, prefix="test.", kafka=FAST) as records,
        pytest.raises(InputError, match="follow=False, idle=SECONDS or timeout=SECONDS"),
    ):
        records.to_pandas()


@pytest.mark.parametrize("missing", ["pandas", "polars", "pyarrow"])
def test_a_missing_library_names_the_extra(
    missing: str, broker: EmbeddedKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    monkeypatch.setattr(tables, "find_spec", lambda name: None if name == missing else object())
    with importance(broker.bootstrap, prefix="test.", kafka=FAST, follow=False) as records:
        make = records.to_polars if missing == "polars" else records.to_pandas
        with pytest.raises(InputError, match=f"expected {missing}, got none; pip install 'glasstream\\[tables\\]'"):
            make()
