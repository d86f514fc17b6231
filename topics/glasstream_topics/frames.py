"""The binary container of every internal record: a header of JSON and numpy arrays, behind a checksum.

    offset  bytes  what
    0       4      magic, b"GLSF"
    4       1      version of the container, 1
    5       3      zero
    8       16     blake2b-16 of everything after it
    24      8      length of the whole frame, little endian
    32      8      length of the header, little endian
    40      ...    header: {"arrays": [[name, dtype, shape], ...], "kind": ..., "meta": {...}, "version": ...}
    ...            each array in the order of the header: zeros up to a multiple of 8, then C order, little endian

The bytes are a function of the content: keys and arrays are sorted by name. The checksum detects damage, but it does
not authenticate the writer. Reading a frame executes nothing and allocates no more memory than its own bytes take.
"""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, TypeVar

import msgspec
import numpy as np
import orjson

from glasstream_topics.errors import FrameError

Array = np.ndarray[Any, np.dtype[Any]]
T = TypeVar("T")

_MAGIC: Final = b"GLSF\x01\x00\x00\x00"  # magic, container version and three zeros
_CHECKSUM_BYTES: Final = 16
_LENGTHS: Final = struct.Struct("<QQ")
_BODY: Final = len(_MAGIC) + _CHECKSUM_BYTES  # the checksum covers what starts here
_HEADER: Final = _BODY + _LENGTHS.size
_MAX_DIMENSIONS: Final = 8
_CODES: Final = ("f8", "f4", "i8", "i4", "i2", "i1", "u8", "u4", "u2", "u1", "b1")
_DTYPES: Final = {code: np.dtype("<" + code) for code in _CODES}
_CODE_OF: Final = {np.dtype(order + code): code for code in _CODES for order in "<>"}
_INTEGERS: Final = frozenset((int,))
_HEADER_KEYS: Final = frozenset(("arrays", "kind", "meta", "version"))


@dataclass(frozen=True, eq=False)
class Frame:
    """A decoded frame.

    Attributes
    ----------
    kind
        kind of the record, such as `explain.requests`.
    version
        version of the record's schema (the container has its own).
    meta
        everything that is not an array, as JSON values.
    arrays
        read-only views on the decoded bytes, by name.
    """

    kind: str
    version: int
    meta: dict[str, Any]
    arrays: dict[str, Array]


def encode(kind: str, version: int, meta: Mapping[str, object], arrays: Mapping[str, Array]) -> bytes:
    """Return the bytes of a frame; the same content always gives the same bytes.

    Parameters
    ----------
    kind, version
        kind of the record and version of its schema; the reader must name the same.
    meta
        JSON values under text keys. NaN and the infinities are refused, because JSON cannot express them; put numbers
        that may be one into an array.
    arrays
        numeric or boolean arrays of up to 8 dimensions, in any memory layout; object arrays are refused.

    Raises
    ------
    FrameError
        the content cannot be written exactly.
    """
    table: list[tuple[str, str, tuple[int, ...]]] = []
    contents: list[Array] = []
    for name in sorted(arrays):
        array = np.asarray(arrays[name], order="C")
        code = _CODE_OF.get(array.dtype)
        if code is None or array.ndim > _MAX_DIMENSIONS:
            raise FrameError(
                f"array {name!r} of a {kind} frame: expected one of {', '.join(_DTYPES)} with at most "
                f"{_MAX_DIMENSIONS} dimensions, got {array.dtype} with {array.ndim}"
            )
        table.append((name, code, array.shape))
        contents.append(array if array.dtype == _DTYPES[code] else array.astype(_DTYPES[code]))
    header = _json({"arrays": table, "kind": kind, "meta": dict(meta), "version": version}, kind)
    parts: list[bytes | memoryview] = [b"", header]
    position = _HEADER + len(header)
    for array in contents:
        parts += (bytes(-position % 8), array.data)
        position += -position % 8 + array.nbytes
    parts[0] = _LENGTHS.pack(position, len(header))
    body = b"".join(parts)
    return b"".join((_MAGIC, blake2b(body, digest_size=_CHECKSUM_BYTES).digest(), body))


def decode(data: bytes | bytearray | memoryview, kind: str, version: int) -> Frame:
    """Decode a frame. Its arrays are read-only views, copied only if the memory is not aligned to 8 bytes.

    Raises
    ------
    FrameError
        the bytes are foreign, damaged, truncated, or of another kind or version. No other error is raised, whatever the
        bytes.
    """
    view = memoryview(data)
    if not view.c_contiguous:
        raise FrameError(f"a {kind} frame: expected contiguous bytes, got a strided view")
    view = view.cast("B")
    header_length = _check_envelope(view, kind)
    header = _header(view[_HEADER : _HEADER + header_length], kind)
    if header["kind"] != kind or header["version"] != version:
        raise FrameError(
            f"expected a {kind} frame of version {version}, got {header['kind']!r} of version {header['version']!r}; "
            f"writer and reader must run the same release of the contract"
        )
    arrays: dict[str, Array] = {}
    position = _HEADER + header_length
    before = ""
    for row in header["arrays"]:
        name, dtype, shape, length = _table_row(row, kind)
        if arrays and name <= before:
            raise FrameError(f"a {kind} frame: expected arrays sorted by name, got {name!r} after {before!r}")
        position += -position % 8
        if length > len(view) - position:
            raise FrameError(
                f"array {name!r} of a {kind} frame: expected {length} bytes at {position}, "
                f"the frame has {max(len(view) - position, 0)} left"
            )
        arrays[name] = _array(view, position, dtype, shape, name, kind)
        position += length
        before = name
    if position != len(view):
        raise FrameError(f"a {kind} frame: its content ends at byte {position}, the frame at {len(view)}")
    return Frame(kind, version, header["meta"], arrays)


def convert(fields: object, record: type[T], kind: str) -> T:
    """Return the dataclass, or another type that msgspec knows, whose fields a frame holds.

    Raises
    ------
    FrameError
        a field is unknown, missing or of another type.
    """
    known = getattr(record, "__dataclass_fields__", None)
    if known is not None and isinstance(fields, dict) and not fields.keys() <= known.keys():
        raise FrameError(f"the meta of a {kind} frame: unknown fields {sorted(fields.keys() - known.keys())}")
    try:
        return msgspec.convert(fields, record)
    except msgspec.ValidationError as error:
        raise FrameError(f"the meta of a {kind} frame: {error}") from error


def mismatch(name: str, array: Array, dtype: str, shape: tuple[int, ...]) -> list[str]:
    """Return a finding if an array does not have the dtype and shape that its schema demands.

    >>> mismatch("y", np.zeros(3), "float64", (2,))
    ['y: expected float64[2], got float64[3]']
    """
    if array.dtype == dtype and array.shape == shape:
        return []
    return [f"{name}: expected {dtype}{list(shape)}, got {array.dtype}{list(array.shape)}"]


def repeated(name: str, array: Array) -> list[str]:
    """Return a finding if an array contains negative or repeated numbers.

    >>> repeated("seqs", np.array([4, 0, 4]))
    ['seqs: expected different numbers from 0 on, got 0 below and 1 twice']
    """
    if not np.count_nonzero(array[1:] <= array[:-1]) and array[0] >= 0:
        return []  # nearly always: they increase
    below, twice = int((array < 0).sum()), len(array) - len(np.unique(array))
    if not below and not twice:
        return []
    return [f"{name}: expected different numbers from 0 on, got {below} below and {twice} twice"]


def _check_envelope(view: memoryview, kind: str) -> int:
    """Check magic, checksum and lengths, and return the length of the header."""
    if len(view) < _HEADER:
        raise FrameError(f"a {kind} frame: expected at least {_HEADER} bytes, got {len(view)}")
    magic = bytes(view[: len(_MAGIC)])
    if magic != _MAGIC:
        raise FrameError(
            f"a {kind} frame: expected the magic {_MAGIC!r}, got {magic!r}; "
            f"these bytes are not a frame, or one of another container version"
        )
    total, header_length = _LENGTHS.unpack_from(view, _BODY)
    if total != len(view):
        raise FrameError(f"a {kind} frame: expected {total} bytes as its header says, got {len(view)}")
    if blake2b(view[_BODY:], digest_size=_CHECKSUM_BYTES).digest() != view[len(_MAGIC) : _BODY]:
        raise FrameError(f"a {kind} frame of {len(view)} bytes: the checksum does not fit, the bytes are damaged")
    if header_length > len(view) - _HEADER:
        raise FrameError(f"a {kind} frame: a header of {header_length} bytes does not fit into {len(view)}")
    return int(header_length)


def _header(view: memoryview, kind: str) -> dict[str, Any]:
    """Return the header as JSON, with its own fields checked."""
    try:
        header = orjson.loads(view)
    except orjson.JSONDecodeError as error:
        raise FrameError(f"a {kind} frame: its header is not JSON: {error}") from error
    if (
        not isinstance(header, dict)
        or header.keys() != _HEADER_KEYS
        or not isinstance(header["arrays"], list)
        or not isinstance(header["kind"], str)
        or not isinstance(header["meta"], dict)
        or type(header["version"]) is not int
    ):
        raise FrameError(f"a {kind} frame: expected a header with arrays, kind, meta and version, got {header!r:.200}")
    return header


def _table_row(row: object, kind: str) -> tuple[str, np.dtype[Any], tuple[int, ...], int]:
    """Return name, dtype, shape and length in bytes of one array."""
    if not isinstance(row, list) or len(row) != 3:
        raise FrameError(f"a {kind} frame: expected [name, dtype, shape] in its table of arrays, got {row!r:.200}")
    name, code, shape = row
    if (
        not isinstance(name, str)
        or not isinstance(code, str)
        or code not in _DTYPES
        or not isinstance(shape, list)
        or len(shape) > _MAX_DIMENSIONS
        or not _INTEGERS.issuperset(map(type, shape))
        or min(shape, default=0) < 0
    ):
        raise FrameError(f"a {kind} frame: expected a name, a known dtype and a shape, got {row!r:.200}")
    dtype = _DTYPES[code]
    # numpy multiplies all sizes but the zeros; beyond 63 bits it raises, even for an array without elements.
    if math.prod([size or 1 for size in shape]) * dtype.itemsize >= 1 << 62:
        raise FrameError(f"array {name!r} of a {kind} frame: its shape {shape} is beyond any memory")
    return name, dtype, tuple(shape), math.prod(shape) * dtype.itemsize


def _array(
    view: memoryview, position: int, dtype: np.dtype[Any], shape: tuple[int, ...], name: str, kind: str
) -> Array:
    """Return a read-only array over the bytes that begin at a position."""
    array = np.ndarray(shape, dtype, view, position)
    if dtype.kind == "b" and array.view(np.uint8).max(initial=0) > 1:
        raise FrameError(f"array {name!r} of a {kind} frame: expected booleans, got other bytes than 0 and 1")
    if not array.flags.aligned:
        array = array.copy()
    array.setflags(write=False)
    return array


def _json(header: dict[str, object], kind: str) -> bytes:
    """Return the header's bytes; refuse values that decoding would not restore."""
    try:
        data = orjson.dumps(header, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError as error:
        raise FrameError(f"the meta of a {kind} frame: expected JSON values: {error}") from error
    # orjson writes null for NaN and the infinities, so only a header with a null in it can hold one.
    if b"null" in data and _has_non_finite(header["meta"]):
        raise FrameError(f"the meta of a {kind} frame: expected finite numbers, got NaN or an infinity")
    return data


def _has_non_finite(value: object) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, dict):
        return any(_has_non_finite(inner) for inner in value.values())
    if isinstance(value, list | tuple):
        return any(_has_non_finite(inner) for inner in value)
    return False
