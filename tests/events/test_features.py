"""Feature identity: every state of a feature has its stated effect."""

import pickle
import tracemalloc
from math import isnan, nan
from random import Random

import orjson
from hypothesis import given
from hypothesis import strategies as st

from glasstream.events.features import FORMS_BYTES, NAMES_BYTES, FeatureTable, Kind
from glasstream.events.limits import IngestLimits


def row(table: FeatureTable, x: dict) -> tuple[list[float], dict]:
    return row_of(table.encode(x))


def row_of(encoded: tuple) -> tuple[list[float], dict]:
    values, given_to_model = encoded
    return [float(value) for value in values], dict(given_to_model)


def test_a_new_feature_gets_the_next_slot_and_a_vanished_one_keeps_its_own() -> None:
    table = FeatureTable()
    row(table, {"b": 1.0})
    values, _ = row(table, {"a": 2.0})
    assert table.names == ["b", "a"]
    assert isnan(values[0]) and values[1] == 2.0


def test_null_is_absent_and_does_not_say_what_kind_a_feature_is() -> None:
    table = FeatureTable()
    assert row(table, {"a": None}) == ([], {})
    row(table, {"a": "text"})
    assert table.kinds == [Kind.TEXT]
    values, model = row(table, {"a": None})
    assert isnan(values[0]) and model == {}


def test_a_retyped_value_is_absent_and_counted() -> None:
    table = FeatureTable()
    row(table, {"a": 1.0, "b": "x", "c": True})
    values, model = row(table, {"a": "1", "b": 2.0, "c": 1.0})
    assert all(map(isnan, values)) and model == {}
    assert table.counts.retyped == 3
    assert row(table, {"a": 3.0, "b": "x", "c": False})[1] == {"a": 3.0, "b": "x", "c": False}


def test_limits_make_absent_and_count() -> None:
    table = FeatureTable(IngestLimits(features=2, categories=2, text=3))
    row(table, {"a": "x", "long name": 1.0, "b": 1.0, "c": 1.0})
    assert table.names == ["a", "b"]
    assert table.counts.over_limit == 2
    row(table, {"a": "y"})
    values, model = row(table, {"a": "z"})
    assert isnan(values[0]) and model == {}
    values, model = row(table, {"a": "text too long"})
    assert isnan(values[0]) and model == {}
    assert table.counts.over_limit == 4
    assert row(table, {"a": "x"})[1] == {"a": "x"}


def test_values_that_are_treated_as_absent_are_told_once_for_each_feature_and_reason() -> None:
    table = FeatureTable(IngestLimits(features=2, categories=2, text=3))
    for text in ("x", "y", "z", "w"):
        row(table, {"t": text, "n": 1.0})
    for size in ("big", True, "small"):
        row(table, {"t": "x", "n": size, f"new {size}": 1.0})
    assert [line.partition(":")[0] for line in table.remarks] == [
        "feature 't'",
        "feature 'n'",
        "feature 'new big' is left out, and so is every other one beyond 2 features (limits.features), names of 3 "
        "characters (limits.text) or 256 KiB of names",
    ]
    assert "at most 2 different texts (limits.categories)" in table.remarks[0]
    assert "expected a number, as its first value was, got a text" in table.remarks[1]


def test_names_together_are_bounded_by_their_bytes_as_json() -> None:
    """A record with a number for each feature must stay below what a broker takes, whatever the names."""
    table = FeatureTable()
    names = [f"{n:03}" + "\x01é" * 500 for n in range(200)]
    for name in names:
        table.encode({name: 1.0})
    size = sum(len(orjson.dumps(name)) for name in table.names)
    assert NAMES_BYTES - 5_000 < size <= NAMES_BYTES and table.names == names[: len(table)]
    assert table.counts.over_limit == len(names) - len(table)
    table.encode({"short": 1.0})
    assert table.names[-1] == "short"
    again = FeatureTable.restored(IngestLimits(), list(table.names), list(table.kinds), [[] for _ in table.names])
    for one in (table, again):
        one.encode(dict.fromkeys(names, 1.0))
        assert len(one) == len(table)


def test_remembered_forms_are_bounded_in_bytes_whatever_the_names() -> None:
    table = FeatureTable(IngestLimits(features=50))
    row(table, dict.fromkeys((f"f{n}" for n in range(50)), 1.0))
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(3_000):
        x = {f"{number} {n} {'z' * 900}": 1.0 for n in range(3)} | {f"f{number % 50}": 1.0}
        _, model = row(table, x)
        assert model == {f"f{number % 50}": 1.0} and table.counts.over_limit == 3 * (number + 1)
        assert table.forms_bytes <= FORMS_BYTES
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak - before < 2 * FORMS_BYTES
    assert table._plans, "some are remembered"


def test_a_form_wider_than_a_row_is_not_remembered() -> None:
    table = FeatureTable(IngestLimits(features=2))
    for number in range(10):
        assert row(table, {"a": 1.0, "b": 2.0, f"c{number}": 3.0}) == ([1.0, 2.0], {"a": 1.0, "b": 2.0})
    assert not table._plans
    row(table, {"b": 1.0, "a": 2.0})
    assert len(table._plans) == 1


def test_forms_are_no_state_and_a_table_that_is_read_back_gives_the_same_rows() -> None:
    rng = Random(7)
    table = FeatureTable(IngestLimits(features=20, categories=5))
    sizes = []
    for number in range(2_000):
        names = [rng.choice((f"f{rng.randrange(25)}", f"{rng.random()}")) for _ in range(5)]
        x = {name: rng.choice((1.5, True, "t", None)) for name in names}
        again = pickle.loads(pickle.dumps(table)) if number % 10 == 0 else again  # noqa: S301, F821
        assert str(row(again, x)) == str(row(table, x))
        assert (again.counts, again.names, again.categories) == (table.counts, table.names, table.categories)
        if number >= 200:
            sizes.append(len(pickle.dumps(table)))
    assert max(sizes) - min(sizes) < 200


def test_a_model_for_numbers_is_not_given_texts_and_the_row_keeps_them() -> None:
    table = FeatureTable(model_takes_text=False)
    values, model = row(table, {"a": "x", "b": 1.0, "c": True})
    assert values == [0.0, 1.0, 1.0]
    assert model == {"b": 1.0, "c": True}
    assert table.given() == [False, True, True]


values = st.none() | st.booleans() | st.floats(allow_nan=False) | st.sampled_from(["u", "v", "w"])


@given(st.lists(st.dictionaries(st.sampled_from("abcde"), values), max_size=20))
def test_rows_equal_a_plain_reference(events: list[dict]) -> None:
    table = FeatureTable()
    names: list[str] = []
    kinds: dict[str, type] = {}
    codes: dict[str, list[str]] = {}
    for x in events:
        got, model = row(table, x)
        expected_model = {}
        for name, value in x.items():
            if value is None:
                continue
            if name not in kinds:
                names.append(name)
                kinds[name] = type(value)
            if type(value) is kinds[name]:
                expected_model[name] = value
                if isinstance(value, str) and value not in codes.setdefault(name, []):
                    codes[name].append(value)
        expected = [
            float("nan")
            if name not in expected_model
            else float(codes[name].index(expected_model[name]))
            if isinstance(expected_model[name], str)
            else float(expected_model[name])
            for name in names
        ]
        assert str(got) == str(expected)
        assert model == expected_model
        assert table.names == names


@given(st.lists(st.dictionaries(st.sampled_from("abcde"), values), max_size=20), st.booleans())
def test_features_that_were_kept_are_encoded_as_before_and_count_nothing(events: list[dict], takes_text: bool) -> None:
    table = FeatureTable(IngestLimits(features=4, categories=2), model_takes_text=takes_text)
    kept = []
    for x in events:
        table.encode(x)
        kept.append(table.keep(x))
    counts = (table.counts.retyped, table.counts.over_limit)
    again = [row_of(table.encode_kept(one)) for one in kept]
    assert (table.counts.retyped, table.counts.over_limit) == counts
    for (numbers, model), x in zip(again, events, strict=True):
        expected, given_to_model = row(table, x)
        assert repr(numbers) == repr(expected + [nan] * (len(table) - len(expected)))
        assert repr(list(model.items())) == repr(list(given_to_model.items()))


def test_the_names_of_a_notebook_need_not_be_texts() -> None:
    table = FeatureTable(IngestLimits(features=1))
    assert row(table, {0: 1.0, ("a", "b"): 2.0}) == ([1.0], {0: 1.0})
    assert table.remarks[0].startswith("feature \"('a', 'b')\" is left out")
