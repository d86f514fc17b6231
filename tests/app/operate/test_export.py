"""`glasstream export`: the file holds what the topic holds, or there is none."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner, Result

from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.app.command.cli import cli
from glasstream.base.errors import InputError, VersionError
from glasstream_topics.consume import importance, tables
from tests.support.writing import Writer, estimate

FAST = {"fetch.wait.max.ms": "10"}


@pytest.fixture
def broker(embedded: EmbeddedKafka) -> Iterator[EmbeddedKafka]:
    embedded.create_topic("test.importance", 1)
    writer = Writer(embedded.bootstrap, "test.importance")
    writer.send(*(estimate(row, 'a "stream", with\nmarks') for row in range(5)), b"no record")
    writer.send(estimate(7, "other"), key=b"other")
    yield embedded


def exported(broker: EmbeddedKafka, out: Path, *options: str) -> Result:
    arguments = ["export", "--broker", broker.bootstrap, "--prefix", "test.", "--out", str(out), *options]
    return CliRunner().invoke(cli, arguments, standalone_mode=False, catch_exceptions=False)


def test_both_forms_hold_what_a_reader_returns(
    broker: EmbeddedKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "BATCH", 2)
    options = {"prefix": "test.", "kafka": FAST, "follow": False, "damaged": "skip"}
    expected = importance(broker.bootstrap, **options).to_pandas().astype({"stream": str, "feature": str})
    result = exported(broker, tmp_path / "rows.parquet", "importance")
    assert result.stdout == f"{len(expected):,} rows written to {tmp_path / 'rows.parquet'}\n"
    assert result.stderr == "skipped records of test.importance that cannot be read: 1\n"
    exported(broker, tmp_path / "rows.csv", "test.importance")
    for read in (pd.read_parquet(tmp_path / "rows.parquet"), pd.read_csv(tmp_path / "rows.csv")):
        pd.testing.assert_frame_equal(read, expected, check_dtype=False, check_categorical=False)
    exported(broker, tmp_path / "one.parquet", "importance", "--stream", "other")
    assert {*pd.read_parquet(tmp_path / "one.parquet")["row"]} == {7}
    nothing = exported(broker, tmp_path / "none", "importance", "--stream", "x")
    assert nothing.stderr.endswith("importance has no records of 'x'\n")
    (tmp_path / "none").unlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one.parquet", "rows.csv", "rows.parquet"]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_partial_file_is_never_left_and_replaces_none(broker: EmbeddedKafka, form: str, tmp_path: Path) -> None:
    out = tmp_path / "rows"
    out.write_text("from before")
    Writer(broker.bootstrap, "test.importance").send(estimate(9, schema_version=9))
    with pytest.raises(VersionError):
        exported(broker, out, "importance", "--to", form)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("rows", "from before")]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_place_that_cannot_be_written_is_an_error(broker: EmbeddedKafka, form: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"--out {tmp_path / 'none' / 'rows'}: cannot be written"):
        exported(broker, tmp_path / "none" / "rows", "importance", "--to", form)


def test_an_internal_topic_has_no_table(broker: EmbeddedKafka, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected one of predictions, groups, importance, .*, got 'snapshots'"):
        exported(broker, tmp_path / "rows", "snapshots")
