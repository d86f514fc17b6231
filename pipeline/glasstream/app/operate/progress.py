"""Tables that exports continue: what each holds, and up to where."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from glasstream.base.errors import InputError
from glasstream_topics.consume.tables import Layout


class Content(msgspec.Struct, frozen=True):
    """What a table holds.

    Attributes
    ----------
    topic
        Full name of the topic.
    topic_id
        Id of the topic; None if its brokers give topics no ids.
    streams
        Names of the exported streams, in order; none for all of them.
    """

    topic: str
    topic_id: str | None
    streams: list[str]


class Sink(Protocol):
    """Tables to which records are added, each exactly once."""

    def prepare(
        self, table: str, layout: Layout[Any], topic: str, topic_id: str | None, streams: Collection[str]
    ) -> dict[int, int]:
        """Create a table, or check that it can be continued, and return the offsets at which to continue.

        Parameters
        ----------
        table
            Name of the table.
        layout
            Columns of the table.
        topic, topic_id
            Full name and id of the topic; None if its brokers give topics no ids.
        streams
            Names of the streams to export; none for all of them.

        Raises
        ------
        InputError
            The table holds something else, or cannot be written.
        """

    def append(self, table: str, layout: Layout[Any], records: Sequence[Any], offsets: Mapping[int, int]) -> int:
        """Commit records together with the offsets behind them, and return the number of rows.

        Raises
        ------
        InputError
            The table cannot be written.
        """

    def close(self) -> None:
        """Release what the sink holds."""


def expect_same(where: str, saved: Content, current: Content) -> None:
    """Check that a table holds what is to be added to it.

    Parameters
    ----------
    where
        The table, for errors.

    Raises
    ------
    InputError
        It does not. The message says what to do.
    """
    if saved.topic != current.topic:
        raise InputError(f"{where} holds {saved.topic}, not {current.topic}; give another --out")
    if saved.streams != current.streams:
        raise InputError(
            f"{where} holds {_streams(saved.streams)}, not {_streams(current.streams)}; give another --out, or the "
            "same --stream as before"
        )
    if None not in (saved.topic_id, current.topic_id) and saved.topic_id != current.topic_id:
        raise InputError(
            f"{where} holds another topic {saved.topic}, which was deleted since, or is on another Kafka (its id was "
            f"{saved.topic_id}, and is {current.topic_id} now); give another --out"
        )


def _streams(names: list[str]) -> str:
    return "the streams " + ", ".join(map(repr, names)) if names else "all streams"
