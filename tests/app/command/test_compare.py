"""`glasstream compare`: the statement about two streams, with labels that came early or late, and what is refused."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import click
import msgspec
import numpy as np
import pytest
from click.testing import CliRunner

from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.app.command.cli import cli
from glasstream.app.operate.compare import segments_of
from glasstream.base.errors import InputError, TopicError
from glasstream.detect.comparison import Comparison
from glasstream_topics import events, predictions
from tests.support.golden_records import checked_in
from tests.support.writing import Writer

GOLDEN = predictions.decode(checked_in("predictions.v1.json"))
ROWS = 600
DRAWS = np.random.default_rng(11)
LABELS = ["UP" if one else "DOWN" for one in DRAWS.integers(2, size=ROWS)]
CHANCES = {"live": DRAWS.uniform(0.4, 0.7, ROWS), "challenger": DRAWS.uniform(0.45, 0.75, ROWS)}
"""Probability of the right label."""


def answer(model: str, seq: int, **changes: Any) -> bytes:
    right, chance = LABELS[seq], float(CHANCES[model][seq])
    other = "DOWN" if right == "UP" else "UP"
    fields: dict[str, Any] = {
        "stream": model,
        "seq": seq,
        "id": f"e{seq}",
        "prediction": right if chance > 0.5 else other,
        "probabilities": {right: chance, other: 1.0 - chance},
        "target": right,
        "loss": 2 * (1.0 - chance) ** 2,
        "loss_name": "brier",
    }
    return msgspec.json.encode(msgspec.structs.replace(GOLDEN, **(fields | changes)))


def number_of(stream: str, seq: int, prediction: float, target: float | None) -> bytes:
    changes = {"prediction": prediction, "probabilities": None, "target": target, "loss": None, "loss_name": "squared"}
    return answer(stream, seq, **changes)


def send(broker: EmbeddedKafka, stream: str, records: Sequence[bytes], topic: str = "test.predictions") -> None:
    Writer(broker.bootstrap, topic).send(*records, key=stream.encode())


def both(broker: EmbeddedKafka, **changes: Any) -> None:
    for stream in CHANCES:
        send(broker, stream, [answer(stream, seq, **changes) for seq in range(ROWS)])


@pytest.fixture
def broker(embedded: EmbeddedKafka) -> Iterator[EmbeddedKafka]:
    embedded.create_topic("test.predictions", 2)
    embedded.create_topic("test.events", 2)
    yield embedded


def asked(broker: EmbeddedKafka, *options: str) -> list[str]:
    arguments = ["compare", "--broker", broker.bootstrap, "--prefix", "test.", *options]
    result = CliRunner().invoke(cli, arguments, standalone_mode=False, catch_exceptions=False)
    assert result.return_value == 0
    return result.stdout.splitlines()


def expected(order: Sequence[int], alpha: float = 0.05) -> dict[str, Any]:
    """Return the statement about rows in this order, in the units of the Brier loss."""
    losses = [(1.0 - CHANCES[stream][list(order)]) ** 2 for stream in ("live", "challenger")]
    comparison = Comparison(alpha)
    comparison.add(*losses)
    standing = comparison.standing()
    since = standing.since
    return {
        "rows": len(order),
        "loss": "Brier loss",
        "first_loss": pytest.approx(2 * standing.first),
        "second_loss": pytest.approx(2 * standing.second),
        "difference": pytest.approx(2 * standing.difference),
        "low": pytest.approx(2 * standing.low),
        "high": pytest.approx(2 * standing.high),
        "level": 1.0 - alpha,
        "better": (None, "live", "challenger")[standing.better],
        "since_row": since,
        "since_seq": None if since is None else order[since - 1],
    }


def test_the_better_of_two_streams_is_named_with_the_row_since_which_this_is_known(broker: EmbeddedKafka) -> None:
    both(broker)
    (line,) = asked(broker, "live", "challenger", "--json")
    found, wanted = json.loads(line), expected(range(ROWS))
    assert wanted["better"] == "challenger"
    assert 40.0 <= found["evidence"] < 1e9
    assert {name: found[name] for name in wanted} == wanted
    said = asked(broker, "live", "challenger")
    assert said[0] == "600 events compared"
    assert said[1] == f"Brier loss: {found['first_loss']:.4f} of live, {found['second_loss']:.4f} of challenger"
    assert said[2] == (
        f"challenger is better since row {found['since_row']} of 600: Brier loss lower by {found['difference']:.4f}, "
        f"95 % interval {found['low']:.4f} to {found['high']:.4f}, evidence 1 : {found['evidence']:,.0f}"
    )
    swapped = asked(broker, "challenger", "live")
    assert swapped[2] == said[2]


def test_too_few_rows_say_which_difference_would_have_been_seen(broker: EmbeddedKafka) -> None:
    for stream in CHANCES:
        send(broker, stream, [answer(stream, seq) for seq in range(10)])
    (line,) = asked(broker, "live", "challenger", "--json")
    found = json.loads(line)
    assert (found["better"], found["since_row"], found["since_seq"]) == (None, None, None)
    assert asked(broker, "live", "challenger")[2] == (
        f"not known yet after 10 rows: Brier loss of challenger lower by {found['difference']:.4f}, 95 % interval "
        f"{found['low']:.4f} to {found['high']:.4f}; a difference of {found['visible']:.4f} would have been seen by now"
    )


def test_late_labels_are_read_from_the_events_in_their_order(broker: EmbeddedKafka) -> None:
    both(broker, target=None, loss=None)
    order = np.random.default_rng(4).permutation(ROWS).tolist()[: ROWS - 5]
    sent = [events.encode([{"id": f"e{seq}", "x": {"a": 1.0}} for seq in range(ROWS)])]
    sent += [events.encode({"id": f"e{seq}", "y": LABELS[seq]}) for seq in order]
    send(broker, "live", [*sent, events.encode({"id": "e0", "y": "DOWN"}), events.FLUSH], "test.events")
    found, wanted = json.loads(asked(broker, "live", "challenger", "--json")[0]), expected(order)
    assert {name: found[name] for name in wanted} == wanted
    assert asked(broker, "live", "challenger")[0] == "595 events compared; left out: 5 without a label"


def test_only_the_newest_epoch_and_events_of_both_count(broker: EmbeddedKafka) -> None:
    both(broker, prediction="UP", probabilities={"UP": 1.0}, loss=1.0)
    both(broker, epoch=1)
    repeated = answer("challenger", 599, epoch=1)  # by a model that has learned the event since
    send(broker, "live", [answer("live", 3, id="of its own", epoch=1), b"no record"])
    send(broker, "challenger", [repeated])
    assert asked(broker, "live", "challenger")[0] == (
        "599 events compared; left out: 1 only in one of the streams; left out: 1 whose id came more than once; "
        "left out: 1 that cannot be read"
    )
    found, wanted = json.loads(asked(broker, "live", "challenger", "--json")[0]), expected(range(ROWS - 1))
    assert sum(found["left_out"].values()) == 3
    assert {name: found[name] for name in wanted} == wanted


def test_another_deployment_is_named_by_its_prefix(broker: EmbeddedKafka) -> None:
    broker.create_topic("other.predictions", 1)
    send(broker, "live", [answer("live", seq) for seq in range(ROWS)])
    send(broker, "live", [answer("challenger", seq, stream="live") for seq in range(ROWS)], "other.predictions")
    assert asked(broker, "live", "--beside", "other.")[2].startswith("live @ other. is better since row ")


def test_events_that_were_joined_by_their_positions_are_counted(broker: EmbeddedKafka) -> None:
    broker.create_topic("other.predictions", 1)
    for topic in ("test.predictions", "other.predictions"):
        named = {seq: {"id": f"0-{seq}-0"} if seq % 3 else {} for seq in range(30)}
        send(broker, "live", [answer("live", seq, **changes) for seq, changes in named.items()], topic)
    assert asked(broker, "live", "--beside", "other.")[1].startswith("20 of them have positions on the topics")
    assert json.loads(asked(broker, "live", "--beside", "other.", "--json")[0])["by_position"] == 20


def test_segments_share_the_probability_of_an_error(broker: EmbeddedKafka) -> None:
    both(broker)
    sizes = [float(seq % 8) for seq in range(ROWS)]
    send(
        broker,
        "live",
        [events.encode({"id": f"e{seq}", "x": {"size": sizes[seq]}, "y": LABELS[seq]}) for seq in range(ROWS)],
        "test.events",
    )
    found = [json.loads(line) for line in asked(broker, "live", "challenger", "--by", "size", "--json")]
    assert [one["segment"] for one in found] == [
        "size (below 1.75)",
        "size (1.75 to 3.5)",
        "size (3.5 to 5.25)",
        "size (from 5.25 on)",
    ]
    for one, held in zip(found, ((0, 1), (2, 3), (4, 5), (6, 7)), strict=True):
        wanted = expected([seq for seq in range(ROWS) if sizes[seq] in held], 0.05 / 5)  # a size could be missing
        assert {name: one[name] for name in wanted} == wanted
    assert asked(broker, "live", "challenger", "--by", "size")[1].startswith("size (below 1.75): ")
    with pytest.raises(InputError, match=r"--by: expected a feature of the events of live, got 'age'; found 'size'"):
        asked(broker, "live", "challenger", "--by", "age")


def test_segments_are_fixed_by_the_first_rows() -> None:
    draws = np.random.default_rng(1)
    numbers = [*draws.normal(size=1_000).tolist(), None]
    assert segments_of([*numbers, *(1e6 + draws.normal(size=500))])[0][:1_001] == segments_of(numbers)[0]
    assert segments_of([5.0, 5.0, 5.0, None])[1] == ["below 5", "from 5 on", "missing"]
    texts: list[Any] = [str(one) for one in draws.integers(50, size=1_000)]
    places, names = segments_of([*texts, "new", None, True, 2.0])
    assert (len(names), names[-2:]) == (22, ["other values", "missing"])
    assert places[1_000:1_003] == [20, 21, 20]
    assert segments_of([None])[0] == [1]


def test_a_regression_needs_the_largest_error_that_counts(broker: EmbeddedKafka) -> None:
    send(broker, "live", [number_of("live", seq, 7.0, 5.0) for seq in range(ROWS)])
    send(broker, "challenger", [number_of("challenger", seq, 5.5 if seq else 1e9, None) for seq in range(ROWS)])
    with pytest.raises(InputError, match="--scale: expected the largest absolute error that counts"):
        asked(broker, "live", "challenger")
    found = json.loads(asked(broker, "live", "challenger", "--scale", "10", "--json")[0])
    assert found["first_loss"] == pytest.approx(2.0)
    assert found["second_loss"] == pytest.approx((10 + 0.5 * (ROWS - 1)) / ROWS)
    assert (found["better"], found["loss"]) == ("challenger", "absolute error (at most 10)")
    with pytest.raises(InputError, match="--loss: expected none for a regression"):
        asked(broker, "live", "challenger", "--scale", "10", "--loss", "zero_one")


def test_wrong_labels_can_be_compared_instead_of_probabilities(broker: EmbeddedKafka) -> None:
    both(broker, others=predictions.Others(1, 0.0), loss=None)
    with pytest.raises(InputError, match="--loss zero_one"):
        asked(broker, "live", "challenger")
    found = json.loads(asked(broker, "live", "challenger", "--loss", "zero_one", "--json")[0])
    assert found["first_loss"] == pytest.approx((CHANCES["live"] <= 0.5).mean())
    assert found["second_loss"] == pytest.approx((CHANCES["challenger"] <= 0.5).mean())
    with pytest.raises(InputError, match="--scale: expected it for a regression"):
        asked(broker, "live", "challenger", "--loss", "zero_one", "--scale", "3")


def test_an_event_of_one_stream_may_leave_out_classes(broker: EmbeddedKafka) -> None:
    both(broker)
    send(broker, "live", [answer("live", 0, id="alone", others=predictions.Others(1, 0.0), loss=None)])
    assert asked(broker, "live", "challenger")[0] == "600 events compared; left out: 1 only in one of the streams"


def test_streams_that_cannot_be_compared_are_refused(broker: EmbeddedKafka) -> None:
    both(broker)
    with pytest.raises(InputError, match=r"with predictions on test\.predictions, got 'nobody'"):
        asked(broker, "live", "nobody")
    with pytest.raises(TopicError):
        asked(broker, "live", "--beside", "nowhere.")
    with pytest.raises(click.UsageError, match="expected a second stream"):
        asked(broker, "live")
    with pytest.raises(click.UsageError, match="expected another stream"):
        asked(broker, "live", "live")
    send(broker, "apart", [answer("live", 1, stream="apart", id="z")])
    with pytest.raises(InputError, match="expected events with the same ids in live and apart, found none among 600"):
        asked(broker, "live", "apart")
    send(broker, "numbers", [answer("live", 1, stream="numbers", prediction=1.0, target=None, loss=None)])
    with pytest.raises(InputError, match="expected two classifications or two regressions"):
        asked(broker, "live", "numbers")
    send(broker, "silent", [answer("live", 1, stream="silent", prediction=None, probabilities=None, loss=None)])
    with pytest.raises(InputError, match="found none: 599 only in one of the streams, 1 without a prediction"):
        asked(broker, "live", "silent")
    wrong = "DOWN" if LABELS[1] == "UP" else "UP"
    send(broker, "mixed", [answer("live", 1, stream="mixed", target=wrong)])
    with pytest.raises(InputError, match="expected the same label for event 'e1'"):
        asked(broker, "live", "mixed")
