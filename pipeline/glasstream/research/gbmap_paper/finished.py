"""File of finished results, one JSON object per line, from which interrupted work can resume."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson

from glasstream.errors import InputError


class Finished:
    """Store of tasks and their results.

    Parameters
    ----------
    file
        File that holds the results; None stores nothing.

    Raises
    ------
    InputError
        The file cannot be read, or holds something else.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._found: dict[bytes, dict[str, Any]] = {}
        if file is None or not file.exists():
            return
        try:
            lines = file.read_bytes().splitlines(keepends=True)
        except OSError as error:
            raise InputError(f"{file}: expected a file of results, got {error.strerror}") from error
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                continue  # the interruption cut off this line
            try:
                record = orjson.loads(line)
                self._found[_key(record["asked"])] = dict(record["found"])
            except (orjson.JSONDecodeError, TypeError, KeyError, ValueError) as error:
                raise InputError(
                    f"{file}:{number}: expected a line of results, got {line[:60]!r}; delete the line to compute its "
                    "result again, or name another file"
                ) from error
        if lines and not lines[-1].endswith(b"\n"):
            self._write(b"".join(lines[:-1]), "wb")

    def get(self, asked: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the stored result of a task, or None if there is none."""
        return self._found.get(_key(asked))

    def add(self, asked: Mapping[str, Any], found: Mapping[str, Any]) -> None:
        """Store a result.

        Raises
        ------
        InputError
            The file cannot be written.
        """
        self._found[_key(asked)] = dict(found)
        self._write(orjson.dumps({"asked": asked, "found": found}) + b"\n", "ab")

    def _write(self, data: bytes, mode: str) -> None:
        if self._file is None:
            return
        try:
            with self._file.open(mode) as file:
                file.write(data)
        except OSError as error:
            raise InputError(f"{self._file}: cannot be written: {error.strerror}") from error


def _key(asked: Mapping[str, Any]) -> bytes:
    return orjson.dumps(asked, option=orjson.OPT_SORT_KEYS)
