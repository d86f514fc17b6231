"""`glasstream explain`: events by their ids and numbers, the newest ones, and what is said where nothing is found."""

from collections.abc import Iterator

import click
import msgspec
import pytest
from click.testing import CliRunner

from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.app.command.cli import cli
from glasstream.base.errors import InputError
from glasstream_topics import attributions, predictions
from tests.support.golden_records import checked_in
from tests.support.page_records import novelty_record
from tests.support.writing import Writer

GOLDEN = attributions.decode(checked_in("attributions.v2.json"))
PREDICTION = predictions.decode(checked_in("predictions.v1.json"))


def record(seq: int, epoch: int = 0, stream: str = "loans") -> bytes:
    fields = msgspec.structs.asdict(msgspec.structs.replace(GOLDEN, seq=seq, epoch=epoch, stream=stream))
    del fields["schema_version"]
    return attributions.JSON.write(fields)


def prediction(seq: int, event: str, epoch: int = 0) -> bytes:
    return msgspec.json.encode(msgspec.structs.replace(PREDICTION, seq=seq, id=event, stream="loans", epoch=epoch))


@pytest.fixture
def broker(embedded: EmbeddedKafka) -> Iterator[EmbeddedKafka]:
    embedded.create_topic("test.attributions", 2)
    embedded.create_topic("test.predictions", 2)
    writer = Writer(embedded.bootstrap, "test.attributions")
    writer.send(record(7), record(8), b"no record", record(9), record(7, epoch=1), key=b"loans")
    writer.send(record(7, stream="bikes"), key=b"bikes")
    writer = Writer(embedded.bootstrap, "test.predictions")
    writer.send(prediction(7, "a"), prediction(8, "b"), prediction(11, "c"), key=b"loans")
    yield embedded


def asked(broker: EmbeddedKafka, *options: str) -> tuple[str, str, int]:
    arguments = ["explain", "--broker", broker.bootstrap, "--prefix", "test.", *options]
    result = CliRunner().invoke(cli, arguments, standalone_mode=False, catch_exceptions=False)
    return result.stdout, result.stderr, result.return_value


def test_an_event_is_found_by_its_id_in_its_newest_epoch(broker: EmbeddedKafka) -> None:
    Writer(broker.bootstrap, "test.predictions").send(prediction(7, "a", epoch=1), key=b"loans")
    said, errors, code = asked(broker, "--stream", "loans", "--id", "a", "--json")
    assert said.splitlines() == [record(7, epoch=1).decode()]
    assert errors == "skipped records of test.attributions that cannot be read: 1\n"
    assert code == 0


def test_another_event_with_the_same_number_in_a_later_epoch_is_not_taken_for_it(broker: EmbeddedKafka) -> None:
    Writer(broker.bootstrap, "test.predictions").send(prediction(7, "z", epoch=1), key=b"loans")
    assert asked(broker, "--stream", "loans", "--id", "a", "--json")[0].splitlines() == [record(7).decode()]
    assert asked(broker, "--stream", "loans", "--id", "z", "--json")[0].splitlines() == [record(7, epoch=1).decode()]


def test_a_number_without_a_stream_finds_it_in_all_streams(broker: EmbeddedKafka) -> None:
    said, _, code = asked(broker, "--seq", "7", "--json")
    assert sorted(said.splitlines()) == sorted([record(7, epoch=1).decode(), record(7, stream="bikes").decode()])
    assert code == 0


def test_the_newest_events_are_shown_as_sentences_and_bars(broker: EmbeddedKafka) -> None:
    said, _, code = asked(broker, "--stream", "loans", "--last", "2")
    lines = said.splitlines()
    assert lines[0] == (
        "loans, event 9: 0.75 (probability of UP) = 0.5 for the average event, +0.25 because price = 0.0625, -0.125 "
        "because day = mon, +0.0625 because holiday is true, +0.0312 because wind is absent, +0.0312 for all other "
        "features; interactions: -0.0625 of price with day"
    )
    assert lines[1] == "model version 1,000, exact; the average event is of 100 rows from before event 1,000"
    assert [line.split()[0] for line in lines[2:9]] == [
        "average",
        "price",
        "day",
        "holiday",
        "wind",
        "all",
        "prediction",
    ]
    assert lines[3].index("█") < lines[4].index("░")
    assert sum(line.startswith("loans, event") for line in lines) == 2
    assert code == 0


def test_an_event_without_a_record_is_named_with_a_way_to_compute_it(broker: EmbeddedKafka) -> None:
    said, errors, code = asked(broker, "--stream", "loans", "--id", "b", "--id", "c")
    assert said.startswith("loans, event 8: ")
    assert "event 11 of stream loans: expected a record on test.attributions, found none" in errors
    assert "glasstream replay --set explain.methods=attributions --stream loans --seq 11`" in errors
    assert code == 1


@pytest.mark.parametrize(
    ("options", "cause"),
    [
        (["--stream", "loans", "--seq", "13"], "the newest record of epoch 1 is of event 12; this one is not"),
        (["--stream", "loans", "--seq", "4"], "the oldest record of epoch 1 is of event 7; this one came before"),
        (["--stream", "loans", "--seq", "10"], "events 7 to 12 of epoch 1 have records; this one was not chosen by"),
        (["--stream", "cars", "--seq", "7"], "no event of the stream has one; the stages write them with explain.m"),
        (["--seq", "10"], "no stream has a record of an event with this number"),
    ],
)
def test_the_records_that_are_there_say_why_an_event_has_none(
    broker: EmbeddedKafka, options: list[str], cause: str
) -> None:
    Writer(broker.bootstrap, "test.attributions").send(record(12, epoch=1), record(3), key=b"loans")
    assert cause in asked(broker, *options)[1]


def test_flagged_events_are_the_only_ones_that_are_shown(broker: EmbeddedKafka) -> None:
    broker.create_topic("test.novelty", 2)
    _, errors, code = asked(broker, "--flagged")
    assert errors.splitlines()[-1].startswith("events that are flagged on test.novelty: 0; none of them has a record")
    assert code == 1
    scores = [
        novelty_record(7, flagged=False, stream="loans"),
        novelty_record(8, flagged=True, stream="loans"),
        novelty_record(11, flagged=True, stream="loans"),
    ]
    Writer(broker.bootstrap, "test.novelty").send(*scores, key=b"loans")
    said, errors, code = asked(broker, "--flagged", "--json")
    assert said.splitlines() == [record(8).decode()]
    assert code == 0
    with pytest.raises(click.UsageError, match="--flagged: expected it without --id"):
        asked(broker, "--flagged", "--seq", "7")


def test_an_unknown_id_is_refused(broker: EmbeddedKafka) -> None:
    with pytest.raises(InputError, match=r"--id: expected ids of events on test\.predictions, got 'nobody'"):
        asked(broker, "--id", "nobody")


def test_a_topic_without_records_says_which_setting_writes_them(embedded: EmbeddedKafka) -> None:
    embedded.create_topic("test.attributions", 1)
    said, errors, code = asked(embedded)
    assert (said, code) == ("", 1)
    assert errors == "no records on test.attributions: the stages write them with explain.methods=attributions\n"
    assert asked(embedded, "--stream", "loans")[1].startswith("no records of stream 'loans' on test.attributions: ")
