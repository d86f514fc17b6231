"""What a pushed model replaces, in words, and the model of a challenger. On a real Kafka: `test_pushed.py`."""

import pytest
from msgspec.structs import replace

from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.app.operate import models
from glasstream.app.operate.state import Place, State, Stream
from glasstream.base.errors import InputError
from glasstream.flow.settings import Settings
from tests.support.page_records import comparison_record
from tests.support.writing import Writer

DIGEST = "3fa0c1" + 58 * "0"


def stream(name: str, model: str) -> Stream:
    fields = dict.fromkeys(Stream.__struct_fields__, 0)
    return Stream(**{**fields, "stream": name, "seqs": 12_340, "model": model})  # type: ignore[arg-type]


def known(monkeypatch: pytest.MonkeyPatch, behind: int, **of: str) -> None:
    """Let the stages know these streams and their models."""
    place = Place(stage="learner", topic="events", partition=0, epoch=0, offset=0, first=0, end=behind, behind=behind)
    streams = [stream(name, model) for name, model in of.items()]
    found = State(prefix="", partitions=[place], streams=streams, notes=[])
    monkeypatch.setattr(models, "state", lambda settings: found)


def test_what_is_replaced_and_after_which_event(monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, 0, s="", c=DIGEST)
    told = models.replacement(Settings(), "s", DIGEST)
    assert told == "stream s, epoch 0: the model 3fa0c1000000 replaces the model of the settings after 12,340 events"
    assert models.replacement(Settings(), "c", DIGEST).endswith("it uses the model 3fa0c1000000 already")
    known(monkeypatch, 7, c=DIGEST)
    assert models.replacement(Settings(), "c", 64 * "a").endswith(
        "the model aaaaaaaaaaaa replaces the model 3fa0c1000000 after 12,340 events; 7 messages that wait are "
        "predicted by the old model"
    )


def test_a_challenger_needs_a_pushed_model(monkeypatch: pytest.MonkeyPatch) -> None:
    known(monkeypatch, 0, s="", c=DIGEST)
    assert models.used_by(Settings(), "c") == DIGEST
    with pytest.raises(InputError, match="--from: expected a stream with a pushed model, got 's'"):
        models.used_by(Settings(), "s")
    with pytest.raises(InputError, match="has not seen a stream 'x'"):
        models.used_by(Settings(), "x")


def test_the_newest_comparison_of_both_streams_is_told_in_either_direction(embedded: EmbeddedKafka) -> None:
    settings = replace(Settings(), broker=embedded.bootstrap, prefix="other.")
    embedded.create_topic("other.comparisons", 1)
    assert models.verdict(settings, "s", "c") == (
        "no comparison of s and c was published (`glasstream compare s c --publish`)"
    )
    records = [comparison_record(100, None, "c"), comparison_record(200, "other", "c"), comparison_record(300, None)]
    Writer(embedded.bootstrap, "other.comparisons").send(*records)
    for pair in (("s", "c"), ("c", "s")):
        assert models.verdict(settings, *pair).startswith("c is better since row 1 of 200: Brier loss lower by 0.2500")
