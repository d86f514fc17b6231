"""Write predictors as bytes, and read them.

A snapshot is a frame in zstd (see `glasstream_topics.frames`). A compiled predictor consists of names and arrays in
the frame. Reading it executes nothing, and the indices that a kernel uses are checked first. A River model without a
compiled form is a pickle under an HMAC, which is opened only if the key verifies its author. So is the file of an ONNX
model without one, although it is no pickle: onnxruntime gets no bytes from strangers.
"""

import pickle
from dataclasses import dataclass
from typing import Any, Final, cast

import cramjam
import numpy as np

from glasstream.base.errors import AuthenticationError, FrameError, ModelError
from glasstream.models.codec import serialization
from glasstream.models.codec.authentication import Key, open_sealed, seal
from glasstream.models.onnx.runtime import OnnxPredictor
from glasstream.models.predictors.arrays import Array, require
from glasstream.models.predictors.compiled import Compiled
from glasstream.models.predictors.predictor import Predictor
from glasstream.models.river.generic import GenericPredictor
from glasstream_topics import frames

KIND: Final = "model"
VERSION: Final = 1
_GENERIC: Final = "generic"
_ONNX: Final = "onnx"
_LEVEL: Final = 1  # 0.4 ms for a forest of 160 kB, which becomes 66 kB; zlib takes 1.6 ms for 69 kB
_GUESS: Final = 8
"""Ratio of compression that snapshots seldom exceed."""
LIMIT: Final = 256 * 2**20
"""Default limit of the inflated size of a snapshot in bytes; River's forest of 10 pickles to 16 MB."""


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """A predictor with its stream, epoch and version."""

    stream: str
    epoch: int
    version: int
    """Number of events that the model had learned."""
    predictor: Predictor
    size: int
    """Number of bytes of its frame."""


def encode(predictor: Predictor, *, stream: str, epoch: int, version: int, key: Key | None) -> bytes:
    """Return the bytes of a snapshot; for a compiled predictor they are a function of the model's state alone.

    Parameters
    ----------
    predictor
        A compiled predictor, a GenericPredictor or an OnnxPredictor.
    stream, epoch, version
        Stream, epoch and version of the model.
    key
        Key that seals the pickle of a GenericPredictor, or the file of an OnnxPredictor; others need none.

    Raises
    ------
    AuthenticationError
        A pickle needs a seal and there is no key.
    ModelError
        The predictor is of another kind, its model cannot be pickled, or the snapshot is larger than `LIMIT`.
    """
    origin: dict[str, object] = {"stream": stream, "epoch": epoch, "version": version}
    content: dict[str, object]
    arrays: dict[str, Array]
    if isinstance(predictor, GenericPredictor | OnnxPredictor):
        onnx = isinstance(predictor, OnnxPredictor)
        body = predictor.to_bytes() if isinstance(predictor, OnnxPredictor) else predictor.pickled()
        sealed = seal(body, kind=_ONNX if onnx else KIND, stream=stream, epoch=epoch, version=version, key=key)
        content = {"form": _ONNX if onnx else _GENERIC, "model": {}}
        arrays = {"sealed": np.frombuffer(sealed, np.uint8)}
    elif type(predictor) in serialization.FORMS.values():
        content, arrays = serialization.pack(cast(Compiled, predictor))
    else:
        raise ModelError(
            f"expected a compiled predictor, a GenericPredictor or an OnnxPredictor, got {type(predictor).__name__}"
        )
    frame = frames.encode(KIND, VERSION, {"origin": origin, **content}, arrays)
    if len(frame) > LIMIT:
        raise ModelError(
            f"stream {stream!r}: a snapshot of its model takes {len(frame):,} bytes, of which explainers read at most "
            f"{LIMIT:,}; use a smaller model (fewer or shallower trees)"
        )
    return compress(frame)


def read(data: bytes | memoryview, *, key: Key | None, limit: int = LIMIT) -> Snapshot:
    """Return the snapshot in `data`.

    Parameters
    ----------
    key
        Key that verifies the pickle of a GenericPredictor, or the file of an OnnxPredictor, before it is opened.
    limit
        Largest inflated size in bytes.

    Raises
    ------
    FrameError
        The bytes of the frame or of a compiled predictor are invalid.
    AuthenticationError
        No `key` sealed the pickle for this stream, epoch and version, or there is no key.
    ModelError
        An authentic pickle cannot be opened here: its module is missing, or has another version.
    """
    return from_frame(inflate(data, limit), key=key)


def from_frame(data: bytes, *, key: Key | None) -> Snapshot:
    """Return the snapshot in the bytes of its frame; errors are those of `read`."""
    frame = frames.decode(data, KIND, VERSION)
    origin = frame.meta.get("origin")
    require(isinstance(origin, dict), "an origin")
    stream, epoch, version = _origin(origin or {})
    predictor: Predictor
    form = frame.meta.get("form")
    if form in (_GENERIC, _ONNX):
        body = frame.arrays.get("sealed")
        require(body is not None and body.dtype == np.uint8 and body.ndim == 1, "an array 'sealed' as u1[n]")
        sealed = np.asarray(body).tobytes()
        if form == _GENERIC:
            predictor = _unpickle(sealed, stream, epoch, version, key)
        else:
            opened = open_sealed(sealed, kind=_ONNX, stream=stream, epoch=epoch, version=version, key=key)
            predictor = OnnxPredictor.from_bytes(opened)
    else:
        predictor = serialization.unpack(frame.meta, frame.arrays)
    return Snapshot(stream, epoch, version, predictor, len(data))


def decode(data: bytes | memoryview, *, key: Key | None) -> Predictor:
    """Return the predictor of the snapshot in `data`; errors are those of `read`."""
    return read(data, key=key).predictor


def compress(frame: bytes) -> bytes:
    """Return the snapshot that holds a frame."""
    return bytes(cramjam.zstd.compress(frame, _LEVEL))


def inflate(data: bytes | memoryview, limit: int = LIMIT) -> bytes:
    """Return the frame in a snapshot.

    Raises
    ------
    FrameError
        The bytes are no snapshot, or inflate to more than `limit` bytes.
    """
    error: Exception | None = None
    for size in (min(limit, _GUESS * len(data) + 65_536), limit):
        buffer = np.empty(size, np.uint8)  # the system allocates memory only as it is written to
        try:
            return buffer[: cramjam.zstd.decompress_into(data, buffer.data)].tobytes()
        except cramjam.DecompressionError as found:
            error = found
    raise FrameError(
        f"model snapshot: expected {len(data)} bytes of zstd that inflate to at most {limit}: {error}"
    ) from error


def _origin(origin: dict[str, Any]) -> tuple[str, int, int]:
    stream, epoch, version = origin.get("stream"), origin.get("epoch"), origin.get("version")
    if not isinstance(stream, str) or type(epoch) is not int or type(version) is not int:
        raise FrameError(f"model snapshot: expected stream, epoch and version, got {origin!r:.200}")
    return stream, epoch, version


def _unpickle(sealed: bytes, stream: str, epoch: int, version: int, key: Key | None) -> GenericPredictor:
    body = open_sealed(sealed, kind=KIND, stream=stream, epoch=epoch, version=version, key=key)
    try:
        predictor = pickle.loads(body)  # noqa: S301 - authentic: sealed by a holder of the key
    except Exception as error:
        raise ModelError(
            f"the model of stream {stream!r}, version {version}, cannot be unpickled "
            f"({type(error).__name__}: {error}); learner and explainers need the same River, and the module that "
            "defines the model"
        ) from error
    if not isinstance(predictor, GenericPredictor):
        raise AuthenticationError(f"expected a sealed GenericPredictor, got {type(predictor).__name__}")
    return predictor
