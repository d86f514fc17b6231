"""Rows of a CSV file, from its bytes."""

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from glasstream.base.errors import InputError

SEPARATOR = re.compile(r"sep=(.)\s*", re.IGNORECASE)
"""First line that names the separator."""
_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
"""Byte order marks at the beginning of a file, and the encodings that they mean."""
_EXPORT = "save or export the table as CSV"
_UNPACK = "unpack the file, or pack it with gzip"
_OTHER = {
    b"PK\x03\x04": ("a zip or Excel file", _EXPORT),
    b"\xd0\xcf\x11\xe0": ("an Excel file", _EXPORT),
    b"PAR1": ("a Parquet file", _EXPORT),
    b"ARROW1": ("a Feather or Arrow file", _EXPORT),
    b"ORC": ("an ORC file", _EXPORT),
    b"Obj\x01": ("an Avro file", _EXPORT),
    b"SQLite format 3": ("a SQLite database", _EXPORT),
    b"\x89HDF": ("an HDF5 file", _EXPORT),
    b"%PDF": ("a PDF file", _EXPORT),
    b"BZh": ("a file packed with bzip2", _UNPACK),
    b"\xfd7zXZ\x00": ("a file packed with xz", _UNPACK),
    b"\x28\xb5\x2f\xfd": ("a file packed with zstd", _UNPACK),
    b"\x04\x22\x4d\x18": ("a file packed with lz4", _UNPACK),
    b"7z\xbc\xaf\x27\x1c": ("a 7z archive", _UNPACK),
    b"Rar!\x1a\x07": ("a rar archive", _UNPACK),
}
"""First bytes of files that are no text, what they are, and what to do."""
_LONGEST = max(map(len, _OTHER))


@contextmanager
def open_rows(path: Path) -> Iterator[Iterator[tuple[int, list[str]]]]:
    """Open a CSV file like `open_text`, and yield its rows, header included, each with the number of its (last) line.

    Blank lines are skipped. A first line such as ``sep=;``, which Excel writes, names the separator.

    Raises
    ------
    InputError
        The file cannot be read. Reading the rows can raise it, too.
    """
    with open_text(path) as text:
        yield _read(path, text)


@contextmanager
def open_text(path: Path, errors: str = "strict") -> Iterator[io.TextIOWrapper]:
    """Open a text file, plain or gzipped, in UTF-8 or, with a byte order mark, in UTF-16.

    Raises
    ------
    InputError
        The file cannot be read. Reading the text can raise it, too.
    """
    try:
        with path.open("rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            binary = gzip.GzipFile(fileobj=file) if packed else file
            begin = binary.peek(_LONGEST)
            for mark, (other, todo) in _OTHER.items():
                if begin.startswith(mark):
                    raise InputError(f"{path}: expected CSV, got {other}; {todo}")
            encoding = _MARKS.get(begin[:2], "utf-8-sig")
            with io.TextIOWrapper(binary, encoding=encoding, errors=errors, newline="") as text:
                yield text
    except EOFError as error:
        raise InputError(
            f"{path}: expected a complete gzip file, got a truncated one; copy or download it again"
        ) from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{path}: expected a complete gzip file, got a damaged one: {error}") from error
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error


def _read(path: Path, text: io.TextIOWrapper) -> Iterator[tuple[int, list[str]]]:
    ended = 0  # number of lines before the first one of the reader
    reader = csv.reader(text, strict=True)
    while True:
        begin = ended + reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except UnicodeError as error:
            line = ended + reader.line_num + 1 + _lines_before(error)
            raise InputError(f"{path}, line {line:,}: {_of_encoding(error, text.encoding)}") from error
        except csv.Error as error:
            raise InputError(f"{path}, line {begin:,}: {_of_csv(error)}") from error
        if begin == 1 and (named := SEPARATOR.fullmatch(",".join(row))):
            ended = reader.line_num
            reader = csv.reader(text, strict=True, delimiter=named[1])
        elif len(row) > 1 or "".join(row).strip():
            yield ended + reader.line_num, row


def _lines_before(error: UnicodeError) -> int:
    """Return the number of line breaks before a byte that cannot be decoded, in the piece that was decoded last.

    The text is decoded in pieces. This piece begins in the line that the reader asked for.
    """
    if not isinstance(error, UnicodeDecodeError):
        return 0
    return error.object[: error.start].replace(b"\r\n", b"\n").replace(b"\r", b"\n").count(b"\n")


def _of_encoding(error: UnicodeError, encoding: str) -> str:
    """Return what is wrong with a byte that cannot be decoded."""
    if encoding != "utf-8-sig" or not isinstance(error, UnicodeDecodeError):
        return f"expected text in UTF-16, because the file begins with its mark: {error}; save the file in UTF-8"
    return (
        f"expected text in UTF-8, got the byte 0x{error.object[error.start]:02x}; save the file in UTF-8, or convert "
        "it, such as with `iconv -f cp1252 -t utf-8` from Windows-1252, the usual one for Western Europe"
    )


def _of_csv(error: csv.Error) -> str:
    """Return what is wrong with a row that cannot be read."""
    if "field larger than" in str(error):
        return (
            f"expected cells of at most {csv.field_size_limit():,} characters, got a longer one; shorten such cells or "
            "remove the column; if none is so long, look for a quote that is not closed"
        )
    return (
        f"expected CSV with commas, got a row that cannot be read ({error}); look for a quote that is not closed, or "
        "that is not doubled inside a quoted cell"
    )
