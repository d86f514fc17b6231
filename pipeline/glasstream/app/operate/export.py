"""Write the records of public topics to a file that other tools read, or add them to a folder."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Final

from glasstream.app.operate.folder import Folder
from glasstream.app.operate.table_files import WRITERS
from glasstream.base.errors import InputError
from glasstream.flow.settings import Settings
from glasstream.kafka.transport.connection import connection
from glasstream.kafka.transport.input_topic import TopicIdentity
from glasstream_topics import ALL
from glasstream_topics.consume import tables
from glasstream_topics.consume.reader import Reader
from glasstream_topics.consume.records import Records
from glasstream_topics.consume.tables import Layout
from glasstream_topics.record import Json

TABLES: Final[Mapping[str, Json[..., Any]]] = {one.name: one.json for one in ALL if one.public and one.json is not None}
"""Records of each topic that can be exported."""

_TURN_SECONDS: Final = 1.0
"""While it follows topics, the longest time for which an export reads one of them before it turns to the next."""
_IDLE_SECONDS: Final = 0.2
"""While it follows topics, the time after which an export stops waiting for records of one of them."""


def export(
    settings: Settings,
    topic: str,
    out: Path,
    form: str,
    streams: Collection[str],
    say: Callable[[str], None],
) -> int:
    """Write the records that the topic holds now, and return the number of rows written.

    The rows go to `<out>.part` first, which is renamed when it is complete. Memory is bounded by one batch of records.

    Parameters
    ----------
    topic
        Name of a public topic, with or without the prefix.
    form
        `csv` or `parquet`.
    streams
        Names of the streams to write; none for all of them.
    say
        Called with a line if some records cannot be read.

    Raises
    ------
    InputError
        There is no such topic, pyarrow is not installed, or the file cannot be written.
    TopicError
        The broker does not have the topic.
    BrokerError, VersionError
        The topic cannot be read.
    """
    name = _table(settings, topic)
    with _complete(out) as part, _opened(settings, name, streams, follow=False) as records:
        count = WRITERS[form](part, Layout(TABLES[name].record), records)
    _say_damaged(settings, name, records.damaged, say)
    return count


def add(
    settings: Settings,
    topics: Sequence[str],
    folder: Folder,
    streams: Collection[str],
    say: Callable[[str], None],
    every: float | None = None,
) -> int:
    """Add the records of topics to the tables of a folder, and return the number of rows.

    A table is continued behind its last record. Records are committed in batches, each with the offsets behind it, so
    that every record is added exactly once, however often exports are interrupted.

    Parameters
    ----------
    topics
        Names of public topics, with or without the prefix.
    folder
        Where the tables are.
    streams
        Names of the streams to add; none for all of them.
    say
        Called with a line if some records cannot be read, or have been deleted before they were read.
    every
        None to add the records up to the current end of the topics. Otherwise follow the topics until an error, and
        commit new records after this number of seconds at the latest.

    Raises
    ------
    InputError
        There is no such topic, or the folder cannot be written or holds something else.
    TopicError
        The broker does not have a topic.
    BrokerError, VersionError
        A topic cannot be read.
    """
    names = list(dict.fromkeys(_table(settings, topic) for topic in topics))
    for name in names:
        _opened(settings, name, streams, follow=False).close()  # without the topic, make no table
    with ExitStack() as stack:
        feeds = [stack.enter_context(_feed(settings, folder, name, streams, every is not None, say)) for name in names]
        if every is None:
            count = sum(map(_all, feeds))
            for feed in feeds:
                _say_damaged(settings, feed.table, feed.records.damaged, say)
            return count
        while True:
            for feed in feeds:
                damaged = feed.records.damaged
                _turn(feed, every)
                _say_damaged(settings, feed.table, feed.records.damaged - damaged, say)


@dataclass
class _Feed:
    """A topic that is being added to its table.

    Attributes
    ----------
    pending
        Records that are to be committed together.
    since
        Time at which the first of them came.
    """

    table: str
    layout: Layout[Any]
    records: Reader[Any]
    folder: Folder
    pending: list[Any] = field(default_factory=list)
    since: float = 0.0

    def commit(self) -> int:
        """Commit what is pending, and return the number of rows."""
        count = self.folder.append(self.table, self.layout, self.pending, self.records.positions)
        self.pending = []
        return count


@contextmanager
def _feed(
    settings: Settings,
    folder: Folder,
    name: str,
    streams: Collection[str],
    follow: bool,
    say: Callable[[str], None],
) -> Iterator[_Feed]:
    """Prepare a table, and open its topic behind the last record that the table has."""
    layout = Layout(TABLES[name].record)
    topic = settings.prefix + name
    offsets = folder.prepare(name, topic, TopicIdentity(connection(settings), topic)(), streams)
    with _opened(settings, name, streams, follow=follow, start=offsets) as records:
        begin = records.positions
        for partition, offset in offsets.items():
            if begin.get(partition, offset) > offset:
                say(
                    f"{topic}[{partition}]: the records at offsets {offset} to {begin[partition] - 1} were deleted "
                    "before they were exported; export more often, or raise the topic's retention"
                )
        yield _Feed(name, layout, records, folder)


def _all(feed: _Feed) -> int:
    """Add the records up to the current end of the topic, and return the number of rows."""
    count = 0
    while batch := list(islice(feed.records, tables.BATCH)):
        feed.pending = batch
        count += feed.commit()
    return count + feed.commit()  # behind records that are not exported


def _turn(feed: _Feed, every: float) -> None:
    """Read the next records of a topic that is followed, and commit them when they are enough or have waited enough."""
    for record in islice(_soon(feed.records), tables.BATCH - len(feed.pending)):
        feed.since = feed.since if feed.pending else time.monotonic()
        feed.pending.append(record)
    if feed.pending and (len(feed.pending) >= tables.BATCH or time.monotonic() >= feed.since + every):
        feed.commit()


def _table(settings: Settings, topic: str) -> str:
    """Return the name of a topic without the prefix."""
    name = topic.removeprefix(settings.prefix)
    if name not in TABLES:
        raise InputError(f"export: expected one of {', '.join(TABLES)}, got {topic!r}")
    return name


def _opened(
    settings: Settings, name: str, streams: Collection[str], *, follow: bool, start: Mapping[int, int] | None = None
) -> Reader[Any]:
    return Reader(
        Records(TABLES[name]),
        settings.broker,
        prefix=settings.prefix,
        streams=streams or None,
        start=start or "earliest",
        follow=follow,
        idle=_IDLE_SECONDS if follow else None,
        damaged="skip",
        kafka=settings.kafka,
    )


def _soon(records: Reader[Any]) -> Iterator[Any]:
    """Yield the records that arrive until there is a pause, or until they should be written."""
    end = time.monotonic() + _TURN_SECONDS
    for record in records:
        yield record
        if time.monotonic() >= end:
            return


def _say_damaged(settings: Settings, name: str, count: int, say: Callable[[str], None]) -> None:
    if count:
        say(f"skipped records of {settings.prefix}{name} that cannot be read: {count:,}")


@contextmanager
def _complete(out: Path) -> Iterator[Path]:
    """Give the path of a scratch file, and rename it when the block ends. After an error, delete it."""
    part = out.with_name(out.name + ".part")
    try:
        yield part
        part.replace(out)
    except OSError as error:
        raise InputError(f"--out {out}: cannot be written: {error.strerror or error}") from error
    finally:
        part.unlink(missing_ok=True)
