"""A folder with files of tables that grow: `importance-00000000.parquet`, `importance-00000001.parquet`, ...

Each file holds a batch of records. `importance.json` says how many files there are, and up to which offsets they hold
the topic. A batch is committed by replacing it, in this order:

1. The batch is written to `importance-00000007.parquet.part`.
2. `importance.json` is replaced by one with 8 files and the offsets behind the batch. From now on the batch counts.
3. The batch gets its name, without `.part`. If the export ends before that, the next one does it first.

So a file never changes once it has its name, and each record is in one file, whenever the export is interrupted.
"""

import fcntl
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import msgspec

from glasstream.app.operate.table_files import WRITERS
from glasstream.base.errors import InputError
from glasstream_topics.consume.tables import Layout, with_tables

_LOCK: Final = ".glasstream.lock"


class _Content(msgspec.Struct, frozen=True):
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


class _State(msgspec.Struct, frozen=True):
    """What `NAME.json` says.

    Attributes
    ----------
    content
        What the files hold.
    form
        Format of the files.
    files
        Number of files.
    offsets
        Offset of the next record of each partition.
    """

    content: _Content
    form: str
    files: int
    offsets: dict[int, int]


class Folder:
    """A folder to which one export at a time adds files. It is created if there is none.

    Parameters
    ----------
    path
        The folder.
    form
        `csv` or `parquet`.

    Raises
    ------
    InputError
        It cannot be written, another export writes to it, or pyarrow is not installed.
    """

    def __init__(self, path: Path, form: str) -> None:
        if form == "parquet":
            with_tables("pyarrow")
        self._path = path
        self._form = form
        self._states: dict[str, _State] = {}
        self._lock = self._locked()

    def prepare(self, table: str, topic: str, topic_id: str | None, streams: Collection[str]) -> dict[int, int]:
        """Begin a table, or check that it can be continued, and return the offsets at which to continue.

        Parameters
        ----------
        topic, topic_id
            Full name and id of the topic; None if its brokers give topics no ids.
        streams
            Names of the streams to export; none for all of them.

        Raises
        ------
        InputError
            The table holds something else, or cannot be written.
        """
        content = _Content(topic, topic_id, sorted(streams))
        path = self._path / f"{table}.json"
        with self._writing():
            try:
                state = msgspec.json.decode(path.read_bytes(), type=_State)
            except FileNotFoundError:
                state = _State(content, self._form, 0, {})
            except msgspec.DecodeError as error:
                raise InputError(f"--out {path}: expected the state of an export, got: {error}") from error
            _expect_same(f"--out {self._path}: {table}", state.content, content)
            if state.form != self._form:
                raise InputError(f"--out {self._path}: {table} has {state.form} files; give --to {state.form}")
            if state.files and not (last := self._file(table, state.files - 1)).exists():
                _part(last).replace(last)
        self._states[table] = state
        return dict(state.offsets)

    def append(self, table: str, layout: Layout[Any], records: Sequence[Any], offsets: Mapping[int, int]) -> int:
        """Commit records as a file, together with the offsets behind them, and return the number of rows.

        Raises
        ------
        InputError
            The table cannot be written.
        """
        state = self._states[table]
        state = msgspec.structs.replace(state, offsets={**state.offsets, **offsets})
        count = 0
        with self._writing():
            if records:
                file = self._file(table, state.files)
                count = WRITERS[self._form](_part(file), layout, records)
                _sync(_part(file))
                state = msgspec.structs.replace(state, files=state.files + 1)
            path = self._path / f"{table}.json"
            _part(path).write_bytes(msgspec.json.format(msgspec.json.encode(state)))
            _sync(_part(path))
            _part(path).replace(path)
            _sync(self._path)
            if records:
                _part(file).replace(file)
        self._states[table] = state
        return count

    def close(self) -> None:
        """Let other exports write to the folder."""
        self._lock.close()

    def _file(self, table: str, number: int) -> Path:
        return self._path / f"{table}-{number:08d}.{self._form}"

    def _locked(self) -> IO[bytes]:
        with self._writing():
            self._path.mkdir(parents=True, exist_ok=True)
            lock = (self._path / _LOCK).open("wb")
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                lock.close()
                raise InputError(
                    f"--out {self._path}: another export writes to it; end that export, or give another folder"
                ) from error
            return lock

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InputError(f"--out {self._path}: cannot be written: {error.strerror or error}") from error


def _part(path: Path) -> Path:
    return path.with_name(path.name + ".part")


def _sync(path: Path) -> None:
    """Write a file, or the names in a folder, to the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _expect_same(where: str, saved: _Content, current: _Content) -> None:
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
