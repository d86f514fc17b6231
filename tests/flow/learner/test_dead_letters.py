"""A dead letter never fails because of its size, and what it leaves out it says."""

import orjson
from hypothesis import given
from hypothesis import strategies as st

from glasstream.app.configuration import load
from glasstream.events.decode import decode
from glasstream.events.message import Message, Oversized, Rejections
from glasstream.flow.learner.dead_letters import DeadLetter, dead_letter, origin_only
from glasstream.flow.learner.partition import PartitionLearner
from glasstream.kafka.transport.connection import MAX_RECORD_BYTES
from glasstream_topics import events_dead
from glasstream_topics.events_dead import KEY_BYTES, LISTED, MAX_LETTER_BYTES, ORIGIN_BYTES, Reason
from tests.support.examples import examples

BROKERS_DEFAULT = 1_048_588
"""Kafka's own max.message.bytes, for a batch with all that is in it."""


def size(letter: DeadLetter) -> int:
    return events_dead.size(letter.key, letter.value, letter.headers)


def rejections(key: bytes | None, value: bytes | None, details: list[str], elements: int) -> Rejections:
    found = Rejections(Message("glasstream.events", 3, 7, key, value, 1), 0)
    for detail in details:
        found.add(None, Reason.NOT_JSON, detail)
    for index in range(elements):
        found.add(index, Reason.REJECTED_ELEMENTS, details[0] if details else "expected an object")
    return found


sizes = st.one_of(st.none(), st.integers(0, 3 * KEY_BYTES), st.integers(0, 9 * 1024 * 1024))


@given(
    sizes,
    sizes,
    st.lists(st.text() | st.text().map(lambda text: text * 500), min_size=1, max_size=3),
    st.integers(0, 3 * LISTED),
    st.integers(ORIGIN_BYTES, MAX_LETTER_BYTES) | st.sampled_from([ORIGIN_BYTES, 4 * 1024 * 1024, MAX_LETTER_BYTES]),
)
@examples(120)
def test_any_message_gives_a_letter_within_the_bound(
    key: int | None, value: int | None, details: list[str], elements: int, limit: int
) -> None:
    message = rejections(
        None if key is None else b"k" * key, None if value is None else b"v" * value, details, elements
    )
    letter = dead_letter(message, limit)
    assert size(letter) <= limit
    said = events_dead.decode(letter.headers)
    received = message.message
    assert (letter.key, said.omitted_key_bytes) in ((received.key, None), (None, key))
    assert (letter.value, said.omitted_bytes) in ((received.value, None), (None, value))
    whole = events_dead.size(received.key, received.value, letter.headers) + 100
    if whole <= limit:
        assert (letter.key, letter.value) == (received.key, received.value), "nothing is left out without need"
    if said.omitted_key_bytes is not None:
        assert said.omitted_key_bytes > KEY_BYTES
    assert len(said.rejected or ()) == min(elements, LISTED)
    least = origin_only(letter)
    assert size(least) <= ORIGIN_BYTES < BROKERS_DEFAULT
    left = events_dead.decode(least.headers)
    assert (left.topic, left.partition, left.offset, left.reason) == ("glasstream.events", 3, 7, said.reason)
    assert left.omitted_bytes == value and left.rejected == said.rejected
    assert least.value is None and (least.key == received.key or left.omitted_key_bytes == key)


def test_the_bound_fits_the_producer_and_the_topic() -> None:
    wire = 1_000  # more than any client adds
    assert MAX_LETTER_BYTES + wire <= MAX_RECORD_BYTES <= int(events_dead.TOPIC.config["max.message.bytes"])
    limits = load().limits
    assert ORIGIN_BYTES <= limits.dead_bytes <= MAX_LETTER_BYTES


def test_a_message_of_nothing_but_bad_elements_is_a_letter_that_can_be_sent() -> None:
    value = b"[" + b",".join([b"1"] * 150_000) + b"]"
    config = load()
    learner = PartitionLearner(0, config)
    found = Rejections(Message("events", 0, 0, b"s", value), 0)
    found.found += decode(value, config.limits.message_bytes).rejected
    letter = dead_letter(found, config.limits.dead_bytes)
    said = events_dead.decode(letter.headers)
    assert (len(said.rejected or ()), said.rejected_count) == (LISTED, 150_000)
    assert size(letter) < len(value) + ORIGIN_BYTES and not learner.dead


def test_a_message_that_was_not_read_is_rejected_with_its_place() -> None:
    learner = PartitionLearner(0, load(assignments=["topics.events=1"]))
    for offset, key in enumerate((None, b"s")):
        assert not list(learner.consume(Message("events", 0, offset, key, Oversized(10**6, "expected less"))))
    (first, second) = learner.dead
    for offset, one in enumerate((first, second)):
        letter = dead_letter(one, 10**6)
        said = events_dead.decode(letter.headers)
        assert (said.reason, said.offset, said.detail) == (Reason.TOO_LARGE, offset, "expected less")
        assert (letter.value, said.omitted_bytes) == (None, 10**6)
        orjson.loads(letter.as_json())
    assert learner.position == (2, 0) and not learner.streams
