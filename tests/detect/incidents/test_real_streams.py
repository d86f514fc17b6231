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
    """Neighbouring rows resemble each other, so that the balance alone has not moved significantly at first. Before the
    swap, the customers become younger and richer, and the days of the month go on.
    """
    bank = CsvFile(data_dir / "bank_marketing.csv.gz", "target", "bank", 8_000)
    found = told(Swapped(bank, ("balance", "duration"), Change(6_000, 0, 1, "bank")), model)
    early = [one for one in found if one.row < 6_000]
    assert {one.feature for record in early for one in record.features} == {"age", "balance", "day"}
    assert {one.verdict for one in early} == {"data_moved"}
    first, *later = (one for one in found if one.row >= 6_000)
    assert first.status == "open" and {one.verdict for one in (first, *later)} == {"feature_broken"}
    assert first.summary.startswith("balance and duration arrive swapped since row")
    assert first.onset.earliest <= 6_000 <= first.onset.latest and first.row < 6_500


def test_prices_that_come_alive_are_named(data_dir: Path) -> None:
    """Until row 17,424, they were constant. Before, the demand falls in summer (its median from 0.50 to 0.41), and the
    price rises later.
    """
    found = told(CsvFile(data_dir / "elec2.csv.gz", "target", "elec2", 19_000), "tree")
    *early, last = (one for one in found if one.status == "open")
    assert [(one.verdict, [it.feature for it in one.features]) for one in early] == [
        ("data_moved", ["nswdemand"]),
        ("data_moved", ["nswprice"]),
    ]
    assert last.verdict == "feature_alive"
    assert last.summary.startswith("transfer, vicprice and vicdemand came alive since row 17,4")
    assert last.onset.earliest <= 17_424 <= last.onset.latest


def test_two_sensors_that_drift_apart_are_not_said_to_have_changed_places(data_dir: Path) -> None:
    """With the seasons, their mean difference falls from 150 to 0. Only about seven of the 150 rows after the alarm are
    independent, and in these it looks mirrored.
    """
    found = told(CsvFile(data_dir / "air_quality.csv.gz", "target", "air_quality", 7_355), "tree")
    faults = {(one.feature, one.fault, one.other) for record in found for one in record.features}
    assert ("PT08.S1(CO)", "apart", "PT08.S5(O3)") in faults
    assert "feature_broken" not in {one.verdict for one in found}
