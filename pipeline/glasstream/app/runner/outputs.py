"""Files `DIR/<topic>.jsonl` with the records of each public topic."""

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO

import msgspec

from glasstream.base.errors import InputError

Key = tuple[str, int, str, str, str, str]


class _Place(msgspec.Struct):
    """Sort key of a record."""

    stream: str = ""
    seq: int = -1
    method: str | None = ""
    feature: str | None = ""
    signal: str = ""
    output: str | None = None


_decoder = msgspec.json.Decoder(_Place)


class _File:
    """Output file of one topic. Records go to a scratch file first and are sorted at the end, with little memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.scratch_path = path.with_suffix(".part")
        self.scratch: IO[bytes] = self.scratch_path.open("w+b")
        self.places: list[tuple[Key, int, int]] = []

    def add(self, record: bytes) -> None:
        place = _decoder.decode(record)
        key = (place.stream, place.seq, place.method or "", place.feature or "", place.signal, place.output or "")
        self.places.append((key, self.scratch.tell(), len(record)))
        self.scratch.write(record + b"\n")

    def close(self) -> None:
        ordered = sorted(self.places)
        if ordered != self.places:
            with self.path.open("wb") as file:
                for _, start, size in ordered:
                    self.scratch.seek(start)
                    file.write(self.scratch.read(size + 1))
            self.scratch.close()
            self.scratch_path.unlink()
        else:
            self.scratch.close()
            self.scratch_path.replace(self.path)


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(f"--out: {path} cannot be written: {error.strerror}") from error


def expect_writable(directory: Path) -> None:
    """Check that a directory can be written or created, without creating it.

    Raises
    ------
    InputError
        The directory can be neither written nor created.
    """
    try:
        there = next(place for place in (directory.absolute(), *directory.absolute().parents) if place.exists())
        if not there.is_dir():
            raise InputError(f"--out {directory}: expected a directory, got the file {there}")
        if not os.access(there, os.W_OK | os.X_OK):
            raise InputError(f"--out {directory}: cannot be written: no permission in {there}")
    except OSError as error:
        raise InputError(f"--out {directory}: cannot be written: {error.strerror}") from error


class OutputDirectory:
    """Writes records of public topics, sorted by stream, seq, method, feature, signal and output.

    Raises
    ------
    InputError
        The directory cannot be created or written.
    """

    def __init__(self, directory: Path | None, topics: tuple[str, ...]) -> None:
        self._files: dict[str, _File] = {}
        if directory is None:
            return
        try:
            directory.mkdir(parents=True, exist_ok=True)
            for topic in topics:
                if not re.fullmatch(r"[a-z.]+", topic):
                    raise InputError(f"--out: expected a topic's name, got {topic!r}")
                self._files[topic] = _File(directory / f"{topic}.jsonl")
        except OSError as error:
            raise InputError(f"--out {directory}: cannot be written: {error.strerror}") from error

    def add(self, topic: str, record: bytes) -> None:
        """Add one record of a topic (named without the prefix)."""
        file = self._files.get(topic)
        if file is not None:
            with _writing(file.path):
                file.add(record)

    def __enter__(self) -> "OutputDirectory":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files.values():
            with _writing(file.path):
                file.close()
