"""Pickled state under an HMAC: who cannot make the tag cannot make us execute anything.

    sealed = tag (32 bytes, HMAC-SHA256 of all that follows) | length of the header (4 bytes, little endian)
             | header (JSON: kind, length of the body, stream, version) | body

The tag covers the header, so a body can not be moved to another stream, version or use.
"""

import hashlib
import hmac
import struct
from typing import Any, Final

import orjson

from pipeline.errors import AuthenticationError

_TAG: Final = hashlib.sha256().digest_size
_LENGTH: Final = struct.Struct("<I")
KEY_BYTES: Final = 16
"""A key shorter than this can be guessed."""


def seal(body: bytes, *, kind: str, stream: str, version: int, key: bytes | None) -> bytes:
    """`body` with its header, under a tag made with `key`.

    Raises
    ------
    AuthenticationError
        There is no key, or a short one.
    """
    header = orjson.dumps(_header(kind, stream, version, len(body)), option=orjson.OPT_SORT_KEYS)
    signed = b"".join((_LENGTH.pack(len(header)), header, body))
    return _tag(signed, kind, stream, key) + signed


def open_sealed(data: bytes | memoryview, *, kind: str, stream: str, version: int, key: bytes | None) -> bytes:
    """The body that was sealed as `kind` for `stream` and `version`; nothing of it is looked at before the tag.

    Raises
    ------
    AuthenticationError
        There is no key, the tag is not that of `key`, or the header names something else.
    """
    data = bytes(data)
    tag, signed = data[:_TAG], data[_TAG:]
    what = f"{kind} of stream {stream!r}, version {version}"
    if not hmac.compare_digest(tag, _tag(signed, kind, stream, key)):
        raise AuthenticationError(
            f"{what}: its HMAC does not fit, it is not opened; all stages need the key of the one that wrote it "
            "(GLASSTREAM_HMAC_KEY, or the key file)"
        )
    (length,) = _LENGTH.unpack_from(signed)  # authentic from here on
    start = _LENGTH.size + length
    header, body = signed[_LENGTH.size : start], signed[start:]
    found: Any = orjson.loads(header)
    if found != _header(kind, stream, version, len(body)):
        raise AuthenticationError(f"{what}: expected a body sealed for it, got one sealed for {found}")
    return body


def _header(kind: str, stream: str, version: int, length: int) -> dict[str, str | int]:
    return {"kind": kind, "length": length, "stream": stream, "version": version}


def _tag(signed: bytes, kind: str, stream: str, key: bytes | None) -> bytes:
    if key is None:
        raise AuthenticationError(
            f"{kind} of stream {stream!r}: pickled state needs a key, there is none; "
            "set GLASSTREAM_HMAC_KEY or a key file"
        )
    if len(key) < KEY_BYTES:
        raise AuthenticationError(
            f"{kind} of stream {stream!r}: expected a key of at least {KEY_BYTES} bytes, got {len(key)}"
        )
    return hmac.new(key, signed, hashlib.sha256).digest()
