"""Real data sets in their own order: what happened to them is said in one sentence, and by name."""

from pathlib import Path

import pytest

from glasstream.app.configuration import load
from glasstream.events.sources.changes import Change
from glasstream.events.sources.csv_file import CsvFile
from glasstream.events.sources.messages import pack
from glasstream.events.sources.source import Source
from glasstream.events.sources.swapped import Swapped
from glasstream.flow.reference import Reference
from glasstream_topics import events, incidents
from glasstream_topics.incidents import Incident


def told(source: Source, model: str) -> list[Incident]:
    """Return the incidents of a stream."""
    look = source.look(None)
    settings = load(assignments=[f"model.name={model}", f"model.task={look.task.value}", "publish.every=1000000"])
    key, messages = events.key(source.stream), pack(source.events(), 100, settings.limits.message_bytes)
    loop = Reference(settings)
    return [
        incidents.decode(record)
        for topic, record in loop.run((key, value) for value, _ in messages)
        if topic == "incidents"
    ]


@pytest.mark.parametrize("model", ["tree", "forest"])
def test_two_columns_of_the_bank_change_places(data_dir: Path, model: str) -> None:
    """Neighbouring rows resemble each other, so that the balance alone has not moved significantly at first."""
    bank = CsvFile(data_dir / "bank_marketing.csv.gz", "target", "bank", 8_000)
    found = told(Swapped(bank, ("balance", "duration"), Change(6_000, 0, 1, "bank")), model)
    assert [one.status for one in found] == ["open"] and found[0].verdict == "feature_broken"
    assert found[0].summary.startswith("balance and duration arrive swapped since row")
    assert found[0].onset.earliest <= 6_000 <= found[0].onset.latest and found[0].row < 6_500


def test_prices_that_come_alive_are_named(data_dir: Path) -> None:
    """Until row 17,424, they were constant."""
    found = told(CsvFile(data_dir / "elec2.csv.gz", "target", "elec2", 19_000), "tree")
    assert {one.incident for one in found} == {1} and found[-1].verdict == "feature_alive"
    assert found[0].summary.startswith("transfer, vicprice and vicdemand came alive since row 17,4")
    assert found[0].onset.earliest <= 17_424 <= found[0].onset.latest
