"""A reader reads records of minor versions. It refuses major ones and damaged records, and names their place."""

import subprocess
import sys
from typing import Any

import orjson
import pytest

from glasstream.base.errors import InputError, RecordError, VersionError
from glasstream_topics import drift, effects, importance
from glasstream_topics.consume import Reader
from glasstream_topics.consume.records import Records
from tests.support.golden_records import checked_in

IMPORTANCE = Records(importance.JSON)
EFFECTS = Records(effects.JSON)
DRIFT = Records(drift.JSON)
HERE = "glasstream.importance[3]@17"


def changed(file: str, **fields: Any) -> bytes:
    return orjson.dumps({**orjson.loads(checked_in(file)), **fields})


@pytest.mark.parametrize(
    ("records", "file"),
    [(IMPORTANCE, "importance.v2.json"), (EFFECTS, "effects.v2.json")],
    ids=["importance", "effects"],
)
def test_fields_of_a_later_minor_version_are_passed_over(records: Records[Any], file: str) -> None:
    later = orjson.loads(checked_in(file))
    later |= {"new": [1, {"deep": None}], "newer": "text"}
    assert records.read(orjson.dumps(later), HERE) == records.read(checked_in(file), HERE)


def test_fields_that_an_older_record_lacks_get_their_defaults() -> None:
    older = orjson.loads(checked_in("importance.v2.isage.json"))
    del older["total"]
    record = IMPORTANCE.read(orjson.dumps(older), HERE)
    assert (record.marginal_loss, record.model_loss, record.total) == (0.5, 0.125, None)


@pytest.mark.parametrize("fields", [{}, {"features": "of another form"}], ids=["same form", "another form"])
def test_an_unknown_major_version_is_refused_by_place_and_with_what_to_do(fields: dict[str, Any]) -> None:
    with pytest.raises(VersionError) as caught:
        IMPORTANCE.read(changed("importance.v2.json", schema_version=3, **fields), HERE)
    assert str(caught.value).startswith(f"{HERE}: expected schema_version 1, 2, got 3.")
    assert "upgrade this reader" in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"{",
        b"[" * 100_000,
        b"3",
        b'{"schema_version": 1}',
        changed("importance.v2.json", schema_version="1"),
        changed("importance.v2.json", features=None),
        checked_in("importance.v2.json")[:-1],
    ],
)
def test_a_damaged_record_is_refused_by_place(data: bytes) -> None:
    with pytest.raises(RecordError) as caught:
        IMPORTANCE.read(data, HERE)
    assert not isinstance(caught.value, VersionError)
    assert str(caught.value).startswith(f"{HERE}: ")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"start": "yesterday"}, "start: expected earliest, latest or offsets by partition, got 'yesterday'"),
        ({"damaged": "ignore"}, "damaged: expected raise or skip, got 'ignore'"),
        ({"group": "g", "follow": False}, "group: expected None with follow=False"),
        ({"kafka": {"no.such.setting": "1"}}, "no.such.setting"),
    ],
)
def test_options_that_cannot_be_used_are_an_input_error(options: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        Reader(IMPORTANCE, "127.0.0.1:1", **options)
    assert said in str(caught.value)


def test_a_consumer_loads_neither_faust_nor_models() -> None:
    script = "import sys, glasstream_topics.consume; print({'faust', 'river', 'numba', 'aiokafka'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"
