"""What a document becomes: the fields, their types, and the reason where it becomes nothing."""

from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from glasstream.base.errors import SettingsError
from glasstream.events.decode import decode
from glasstream.events.mapping.fields import parse_path, path_text
from glasstream.events.mapping.formats import Csv, Format, Json, plain_format
from glasstream.events.mapping.mapper import Mapping, event_rules, label_rules, make_kinds
from glasstream.events.mapping.misfit import Misfit
from glasstream.events.mapping.pack import Packer
from glasstream.events.mapping.settings import IntakeSettings
from glasstream.events.message import Message

ORIGIN = Message("loans", 2, 41, b"key", None, 1_700)
FLAT = {"age": 41, "income": 52_000.5, "approved": "yes", "member": True, "note": None}


def mapping(*documents: dict[str, Any], labels: bool = False, **settings: Any) -> Mapping:
    """Return the mapping of these settings, with the types that the documents have."""
    intake = IntakeSettings(**{"topics": "loans", **settings})
    kinds = make_kinds(intake, labels=labels)
    made = Mapping((label_rules if labels else event_rules)(intake, 249), kinds)
    kinds.fix(kinds.inferred((pair for one in documents for pair in made.values(one)), 100))
    return made


def mapped(document: dict[str, Any], *others: dict[str, Any], **settings: Any) -> tuple[str, dict[str, Any]]:
    return mapping(document, *others, **settings).map(document, ORIGIN)


def refused(document: dict[str, Any], *others: dict[str, Any], **settings: Any) -> tuple[str, str]:
    with pytest.raises(Misfit) as found:
        mapping(*(others or (document,)), **settings).map(document, ORIGIN)
    return found.value.reason.value, found.value.detail


def test_flat_json_needs_one_line() -> None:
    assert mapped(FLAT, target="approved") == (
        "loans",
        {
            "x": {"age": 41, "income": 52_000.5, "member": True},
            "y": "yes",
            "id": "loans[2]@41",
            "ts": 1_700,
        },
    )


@pytest.mark.parametrize("types", [None, "income=number,member=boolean,city=text"])
def test_an_empty_text_is_a_missing_number_boolean_or_label(types: str | None) -> None:
    """As forms in browsers, PHP and bridges from CSV write what is missing."""
    blank = {"income": "", "member": " ", "city": "", "paid": ""}
    full = {"income": 1.5, "member": True, "city": "Oulu", "paid": "yes"}
    for seen in ([full, blank], [blank, blank, full]):
        made = mapping(*seen, target="paid", types=types)
        assert made.map(blank, ORIGIN)[1] == {"x": {"city": ""}, "id": "loans[2]@41", "ts": 1_700}
        assert made.map(full, ORIGIN)[1]["x"] == {"income": 1.5, "member": True, "city": "Oulu"}
    assert refused({"paid": "", "id": "a"}, labels_id="id", labels_target="paid", labels=True)[0] == "bad_target"


def test_fields_become_meta_as_they_are_and_no_features() -> None:
    document = {"age": 41, "sex": "f", "address": {"region": 7, "street": "x"}, "staff": None}
    assert mapped(document, meta="sex,place=/address/region,staff,none")[1] == {
        "x": {"age": 41, "address.street": "x"},
        "meta": {"sex": "f", "place": 7},
        "id": "loans[2]@41",
        "ts": 1_700,
    }
    assert mapped(document, features="*,sex", meta="sex")[1]["x"]["sex"] == "f"
    cells = {"age": "41", "sex": " ", "zip": "01067"}
    assert mapped(cells, format="csv", columns="age,sex,zip", meta="sex,zip")[1]["meta"] == {"zip": "01067"}
    for value in ([1], {"a": 1}, 1e61, float("nan"), "x" * 1025, b"x"):
        reason, detail = refused({"age": 41, "sex": value}, meta="sex")
        assert reason == "bad_meta" and detail.startswith("sex: expected a boolean, a number within")


@pytest.mark.parametrize("meta", ["*", "-a", "a,a", "", "@key", ",".join(f"c{n}" for n in range(65)), "a" * 257])
def test_meta_names_fields_only(meta: str) -> None:
    with pytest.raises(SettingsError, match="meta: expected"):
        IntakeSettings(topics="loans", meta=meta)


def test_each_part_comes_from_where_the_settings_say() -> None:
    document = {
        "who": {"id": 7, "shop": "a"},
        "at": "2026-01-02T03:04:05.678+01:00",
        "a": 1,
        "b": {"c": 2, "d": 3},
        "y": 4,
    }
    settings = {"id": "/who/id", "stream": "/who/shop", "ts": "at", "target": "y"}
    every = mapped(document, features="*", **settings)
    assert every == ("a", {"x": {"a": 1, "b.c": 2, "b.d": 3}, "y": 4, "id": 7, "ts": 1767319445678})
    assert mapped(document, features="*,-b", **settings)[1]["x"] == {"a": 1}
    assert mapped(document, features="*,-/b/d,z=/b/c", **settings)[1]["x"] == {"a": 1, "z": 2}
    assert mapped(document, features="z=/b/c", **settings)[1]["x"] == {"z": 2}
    assert mapped(document, stream="@key", id="@key")[0] == "key"
    assert mapped(document, stream="=all", id="@key")[1]["id"] == "key"
    assert mapped({"a": 1, "t": 1_700.5}, ts="t", ts_unit="s")[1]["ts"] == 1_700_500
    assert mapped({"a": 1, "t": -1.5}, ts="t")[1]["ts"] == -1
    assert mapped({"a": 1, "t": 1_767_312_000_123_456}, ts="t", ts_unit="us")[1]["ts"] == 1_767_312_000_123
    assert mapped({"a": 1, "t": 1_767_312_000_123_456_789}, ts="t", ts_unit="ns")[1]["ts"] == 1_767_312_000_123
    assert mapped({"list": [5, {"x": 6}]}, features="q=/list/1/x")[1]["x"] == {"q": 6}


@pytest.mark.parametrize(
    ("document", "settings", "reason", "says"),
    [
        ({"a": "n/a"}, {}, "field_type", r"^a: expected a number.*first messages.*'n/a'"),
        ({"a": True}, {}, "field_type", "a: expected a number"),
        ({"a": "x"}, {"types": "a=number"}, "field_type", r"stated in intake.types\), got 'x'"),
        ({"a": 1e70}, {}, "not_finite", "a: expected a number within"),
        ({"a": [1]}, {}, "nested_value", r"a: expected.*got \[1\].*-a"),
        ({"a": 1, "b.c": 1, "b": {"c": 1}}, {"types": "b.c=number,/b/c=number"}, "nested_value", "two for 'b.c'"),
        ({"a": None}, {}, "empty_x", "at least one field"),
        ({"a": 1}, {"id": "k"}, "bad_id", "k: expected a text or an integer as id, got nothing"),
        ({"a": 1, "k": 2.0**60}, {"id": "k"}, "bad_id", "1.15"),
        ({"a": 1, "k": "k" * 300}, {"id": "k"}, "bad_id", "at most 256 bytes"),
        ({"a": 1, "t": "soon"}, {"ts": "t"}, "bad_ts", "t: expected a time.*'soon'"),
        ({"a": 1}, {"stream": "s"}, "missing_stream", "s: expected the name of a stream"),
        ({"a": 1, "s": 1.5}, {"stream": "s"}, "bad_stream", "1.5"),
        ({"a": 1, "s": "s" * 300}, {"stream": "s"}, "bad_stream", "at most 249 bytes"),
        ({"a": 1, "y": {"deep": 1}}, {"target": "y"}, "nested_value", "^y: expected"),
    ],
)
def test_what_does_not_fit_is_refused_with_field_and_value(
    document: dict[str, Any], settings: dict[str, str], reason: str, says: str
) -> None:
    import re

    found, detail = refused(document, {"a": 1.0}, **settings)
    assert found == reason and re.search(says, detail)


def test_a_label_has_an_id_and_a_target() -> None:
    settings = {"labels_topics": "paid", "labels_id": "/o/id", "labels_target": "ok"}
    assert mapped({"o": {"id": 3}, "ok": "y"}, labels=True, **settings) == ("loans", {"y": "y", "id": 3, "ts": 1_700})
    assert refused({"o": {"id": 3}}, labels=True, **settings)[0] == "bad_target"


def test_types_are_those_of_most_values_and_stated_ones_convert() -> None:
    documents = [{"a": "?"}, {"a": 1}, {"a": 2.5}, {"a": None}]
    assert mapping(*documents).kinds.all == {"a": "number"}
    assert mapped({"a": " 12 ", "b": 7, "c": "TRUE", "d": 0}, types="a=number,b=text,c=boolean,d=boolean")[1]["x"] == {
        "a": 12.0, "b": "7", "c": True, "d": False,
    }  # fmt: skip


def test_the_number_of_inferred_types_is_bounded() -> None:
    made = mapping({f"f{n}": n for n in range(150)})
    assert len(made.kinds.all) == 100
    made.kinds.full = 100
    with pytest.raises(Misfit, match="at most 100 fields"):
        made.map({"f120": 1}, ORIGIN)


@pytest.mark.parametrize(
    ("where", "selected"),
    [
        ("type=order", [0, 1]),
        ("type=order|refund", [0, 1, 2]),
        ("type!=order", [2, 3]),
        ("type=order, /meta/test=true", [1]),
        ("/meta/test!=true", [0, 2, 3]),
        ("type=", [3]),
        ("n=7", [2]),
    ],
)
def test_conditions_select_documents(where: str, selected: list[int]) -> None:
    documents: list[dict[str, Any]] = [
        {"type": "order", "a": 1},
        {"type": "order", "a": 1, "meta": {"test": True}},
        {"type": "refund", "a": 1, "n": 7, "meta": {"test": False}},
        {"type": None, "a": 1, "meta": {"test": [True]}},
    ]
    made = mapping(*documents, where=where)
    assert [place for place, document in enumerate(documents) if made.selects(document)] == selected


def test_a_field_that_is_the_same_in_all_selected_documents_is_no_feature() -> None:
    document = {"type": "order", "region": "EU", "a": 1}
    assert mapped(document, where="type=order,region=EU|US")[1]["x"] == {"region": "EU", "a": 1}


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"where": "type"}, "intake.where: expected field=value or field!=value, got 'type'"),
        ({"id": "@topic"}, "intake.id: expected a field or @key, @place, got '@topic'"),
        ({"features": "-a"}, r"intake.features: expected \* or fields"),
        ({"features": "a=b,a=c"}, "a unique name"),
        ({"features": "/a~2"}, "escapes"),
        ({"types": "a=int"}, "intake.types: expected field=TYPE with one of the types number, text"),
        ({"labels_topics": "l"}, "intake.labels_id: expected the field"),
        (
            {"labels_topics": "loans", "labels_id": "i", "labels_target": "y"},
            "expected conditions that separate events and labels of loans",
        ),
        (
            {
                "labels_topics": "loans",
                "labels_id": "i",
                "labels_target": "y",
                "where": "k=a",
                "labels_where": "k=b",
                "labels_format": "json-lines",
            },
            "intake.labels_format: expected json, the format of the events of loans",
        ),
        ({"topics": "a,b", "labels_topics": "l", "labels_id": "i", "labels_target": "y"}, "names 2"),
        ({"format": "csv"}, "intake.columns"),
        ({"format": "csv", "columns": "a", "records": "b"}, "intake.records: expected the format json"),
        ({"records": "@key"}, "intake.records: expected the name of a field or a JSON Pointer"),
        ({"delimiter": '"'}, "intake.delimiter: expected one character, but no quote"),
        ({"delimiter": ";;"}, "intake.delimiter: expected one character"),
        ({"format": "json-schema"}, "intake.registry"),
        ({"format": "avro"}, "intake.schema"),
        ({"format": "protobuf"}, "intake.schema, message"),
        ({"topics": "a, b"}, "intake.topics: expected a text"),
        ({"topics": "loans,p.events"}, "intake.topics: expected topics of other programs, got p.events"),
        ({"labels_topics": "p.importance", "labels_id": "i", "labels_target": "y"}, "got p.importance of this"),
    ],
)
def test_settings_that_cannot_work_are_refused(settings: dict[str, str], says: str) -> None:
    from glasstream.app.configuration import load

    given = {"topics": "loans", **settings}
    with pytest.raises(SettingsError, match=says):
        load(assignments=[f"intake.{name}={value}" for name, value in given.items()]).intake.expect_usable("p.")


@given(st.lists(st.text(), min_size=1).map(tuple))
def test_a_path_is_its_text(path: tuple[str, ...]) -> None:
    assert parse_path(path_text(path)) == path


def read(name: str, value: bytes, **settings: str) -> list[Any]:
    made: Format | None = plain_format(IntakeSettings(format=name, **settings), name)  # type: ignore[arg-type]
    assert made is not None
    documents, _ = made.read("t", value)
    return [one.reason.value if isinstance(one, Misfit) else one for one in documents]


def test_formats_without_schema() -> None:
    assert read("json", b'{"a":1}') == [{"a": 1}]
    assert read("json", b'[{"a":1},2]') == [{"a": 1}, "not_an_object"]
    assert read("json-lines", b'{"a":1}\n\nx\n{"a":2}') == [{"a": 1}, "not_json", {"a": 2}]
    rows = read("csv", b'1;"x;y"\n2\n', columns="a,b", delimiter=";")
    assert rows == [{"a": "1", "b": "x;y"}, "bad_encoding"]
    with_separator = Csv(["a", "b"], ";").read("t", b"1;x;\n")[0][0]
    assert isinstance(with_separator, Misfit) and "add a name to intake.columns" in with_separator.detail
    for value, reason in ((b"\xff", "not_utf8"), (b"{", "not_json"), (b"3", "not_an_object"), (b"NaN", "not_json")):
        with pytest.raises(Misfit) as found:
            Json().read("t", value)
        assert found.value.reason == reason


def test_a_byte_order_mark_before_json_is_ignored() -> None:
    """Writers of .NET and Windows put one before each text."""
    mark = b"\xef\xbb\xbf"
    assert read("json", mark + b'{"a":1}') == [{"a": 1}]
    assert read("json-lines", mark + b'{"a":1}\r\n' + mark + b'{"a":2}') == [{"a": 1}, {"a": 2}]


def test_numbers_that_json_does_not_have_are_missing_if_the_settings_allow_it() -> None:
    """As Python's `json.dumps` writes them. Texts keep the same words."""
    message = b'{"a": NaN, "b": [-Infinity, 1], "c": "NaN, \\"inf", "d": inf, "NaN": -2.5e-3}'
    wanted = {"a": None, "b": [None, 1], "c": 'NaN, "inf', "d": None, "NaN": -2.5e-3}
    assert read("json", message, nan="null") == [wanted]
    assert read("json-lines", message + b"\n{}", nan="null") == [wanted, {}]
    assert read("json-lines", message) == ["not_json"]
    with pytest.raises(Misfit, match=r"send null instead, or set intake\.nan=null"):
        Json().read("t", message)
    for broken in (b'{"a": NaN, "b": }', b'{"a": NaN, "b": banana}', b'{"a": NaN, "' + b'\\"' * 100_000):
        assert read("json-lines", broken, nan="null") == ["not_json"]


@pytest.mark.parametrize(
    "note", ["two\u2028lines", "next\u0085line", "tab\x0bstop", "form\x0cfeed", "first\nsecond", "a\rb"]
)
def test_only_line_breaks_outside_quotes_end_a_row_of_csv(note: str) -> None:
    quoted = f'"{note}"' if "\n" in note or "\r" in note else note
    rows = [{"age": "41", "note": note, "paid": "yes"}, {"age": "42", "note": "fine", "paid": "no"}]
    for end in ("\n", "\r\n", "\r"):
        text = f"\ufeffage,note,paid{end}41,{quoted},yes{end}  {end}42,fine,no{end}"
        assert read("csv", text.encode(), columns="age,note,paid") == rows


def test_rows_before_one_that_cannot_be_read_are_kept() -> None:
    assert read("csv", b'1,2\n3,"4\n5,6\n', columns="a,b") == [{"a": "1", "b": "2"}, "bad_encoding"]
    with pytest.raises(Misfit, match="expected CSV, got line 1 that cannot be read"):
        read("csv", b'3,"4', columns="a,b")


@pytest.mark.parametrize("empty", [{}, [], {"geo": {}}, {"geo": {"tags": []}}])
def test_what_is_empty_loses_no_event(empty: Any) -> None:
    full = {"a": 1, "addr": {"zip": "00100", "geo": {"lat": 60.1}}}
    assert mapped({"a": 1, "addr": empty}, full)[1]["x"] == {"a": 1}
    assert mapped({"a": 1, "addr": empty}, full, features="*,lat=/addr/geo/lat")[1]["x"] == {"a": 1}


def test_cells_of_csv_have_types() -> None:
    (document,) = read("csv", b"4,yes,,true", columns="a,b,c,d")
    assert mapped(document, format="csv", columns="a,b,c,d")[1]["x"] == {"a": 4.0, "b": "yes", "d": True}


_events = st.lists(st.fixed_dictionaries({"x": st.dictionaries(st.text(min_size=1), st.integers(-9, 9), min_size=1)}))


@given(_events, st.integers(20, 400))
def test_packing_keeps_order_and_limits(content: list[dict[str, Any]], limit: int) -> None:
    packer, fitting = Packer(limit), [one for one in content if len(orjson.dumps(one)) <= limit]
    for one in fitting:
        packer.add(orjson.dumps(one))
    kept: list[Any] = []
    for value in packer.messages():
        assert len(value) <= limit
        found = decode(value, limit)
        assert not found.rejected
        kept += [event.x for _, event in found.events]  # type: ignore[union-attr]
    assert kept == [one["x"] for one in fitting] and packer.count == len(fitting)


_values = st.none() | st.booleans() | st.integers(-9, 9) | st.floats(width=64) | st.text(max_size=3) | st.just([1])
_documents = st.dictionaries(st.sampled_from(["a", "b", "/n/a", "@key", "e~f", ""]), _values, min_size=1)


@given(_documents, st.lists(_documents, max_size=3), st.booleans())
@example({"/n/a": 1}, [{"/n/a": "t"}, {"/n/a": "t"}], False)  # a name that is the pointer of another field
def test_values_that_need_no_conversion_are_those_that_the_types_allow(
    document: dict[str, Any], others: list[dict[str, Any]], stated: bool
) -> None:
    """The mapping takes values that fit without asking `Kinds.value`: the result is the same."""
    made = mapping(document, *others, {"n": {"a": 1}}, types="a=number,b=text" if stated else None)
    try:
        values = {name: made.kinds.value(path_text((name,)), value) for name, value in document.items()}
    except Misfit as misfit:
        with pytest.raises(Misfit) as refused:
            made.map(document, ORIGIN)
        assert refused.value.detail == misfit.detail
    except KeyError:
        with pytest.raises(KeyError):
            made.map(document, ORIGIN)
    else:
        if x := {name: value for name, value in values.items() if value is not None}:
            assert made.map(document, ORIGIN)[1]["x"] == x
