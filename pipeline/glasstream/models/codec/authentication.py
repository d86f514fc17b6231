"""State sealed with an HMAC: without the key, a reader cannot be made to open it, or to execute a pickle.

    sealed = tag (32 bytes, HMAC-SHA256 of all that follows) | length of the header (4 bytes, little endian)
             | header (JSON: kind, length of the body, stream, and what else names the body) | body

The tag covers the header, and the header names everything that the record around it says of the body (epoch, version or
rows, position, settings). A reader therefore refuses a body that was moved to another record.

Keys can be rotated: the first of several keys signs, and a tag of any of them is accepted.
"""

import hashlib
import hmac
import struct
from collections.abc import Mapping
from typing import Any, Final

import orjson

from glasstream.base.errors import AuthenticationError

_TAG: Final = hashlib.sha256().digest_size
_LENGTH: Final = struct.Struct("<I")
KEY_BYTES: Final = 16
"""Smallest length of a key in bytes; a shorter key could be guessed."""

Key = bytes | tuple[bytes, ...]
"""A key, or several: the first signs, all verify."""
Named = int | str | Mapping[str, str | int | float | bool | None]
"""Value of one field of the header, which describes the body."""


def seal(body: bytes, *, kind: str, stream: str, key: Key | None, **of: Named) -> bytes:
    """Return `body` with its header, under a tag made with the first key.

    Parameters
    ----------
    kind, stream, of
        Description of the body: everything in the surrounding record that a reader relies on.
    key
        The key, or several, of which the first signs.

    Raises
    ------
    AuthenticationError
        There is no key, or it is too short.
    """
    header = _header({"kind": kind, "stream": stream, **of}, len(body))
    signed = b"".join((_LENGTH.pack(len(header)), header, body))
    return _tag(signed, _keys(kind, stream, key)[0]) + signed


def open_sealed(data: bytes | memoryview, *, kind: str, stream: str, key: Key | None, **of: Named) -> bytes:
    """Return the body that was sealed under exactly these names. The tag is verified before anything else is read.

    Raises
    ------
    AuthenticationError
        There is no key, the tag matches none of the keys, or the header differs from the expected one.
    """
    data = bytes(data)
    tag, signed = data[:_TAG], data[_TAG:]
    named = {"kind": kind, "stream": stream, **of}
    what = f"{kind} of stream {stream!r}"
    if not any(hmac.compare_digest(tag, _tag(signed, one)) for one in _keys(kind, stream, key)):
        raise AuthenticationError(
            f"{what}: its HMAC does not match, so it was written with another key or has been changed; give all stages "
            "the same GLASSTREAM_HMAC_KEY (or key file)"
        )
    (length,) = _LENGTH.unpack_from(signed)  # authentic from here on
    start = _LENGTH.size + length
    header, body = signed[_LENGTH.size : start], signed[start:]
    if header != _header(named, len(body)):
        raise AuthenticationError(f"{what}: expected a body sealed for it, got one sealed for {_others(header, named)}")
    return body


def _header(named: Mapping[str, Named], length: int) -> bytes:
    return orjson.dumps({**named, "length": length}, option=orjson.OPT_SORT_KEYS)


def _others(header: bytes, named: Mapping[str, Named]) -> str:
    """Describe how an authentic header differs from the expected one."""
    found: dict[str, Any] = orjson.loads(header)
    wrong = sorted(name for name in {*found, *named} - {"length"} if found.get(name) != named.get(name))
    return ", ".join(f"{name} {found.get(name)!s:.100}" for name in wrong) or "another version of this header"


def _keys(kind: str, stream: str, key: Key | None) -> tuple[bytes, ...]:
    keys = (key,) if isinstance(key, bytes) else key
    if not keys:
        raise AuthenticationError(
            f"{kind} of stream {stream!r}: sealed state needs a key, there is none; "
            "set GLASSTREAM_HMAC_KEY or a key file"
        )
    if (shortest := min(map(len, keys))) < KEY_BYTES:
        raise AuthenticationError(
            f"{kind} of stream {stream!r}: expected keys of at least {KEY_BYTES} bytes, got one of {shortest}"
        )
    return keys


def _tag(signed: bytes, key: bytes) -> bytes:
    return hmac.new(key, signed, hashlib.sha256).digest()
