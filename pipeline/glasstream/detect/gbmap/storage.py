"""Write maps as bytes and read them: names and arrays, in the frames of every internal record.

Reading executes nothing. The content that a kernel would use is checked first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from glasstream.base import form
from glasstream.base.errors import FrameError, ModelError
from glasstream.base.form import Field
from glasstream.detect.gbmap.encoding import Encoding
from glasstream.detect.gbmap.map import BoostedMap
from glasstream.detect.gbmap.settings import LOSSES, UNITS
from glasstream.models.predictors.arrays import Array, require, require_starts, sealed
from glasstream_topics import frames

KIND: Final = "gbmap"
VERSION: Final = 1
_FRAME: Final = f"a {KIND} frame"
_MAP: Final = {
    "weights": Field("f8", ("learners", "features")),
    "constants": Field("f8", ("learners",)),
    "offsets": Field("f8", ("learners",)),
    "signs": Field("f8", ("learners",), -1, 1, whole=True),
    "numbers": Field("f8", (2,)),
}
_ENCODING: Final = {
    "means": Field("f8", ("columns",)),
    "deviations": Field("f8", ("columns",), np.finfo(np.float64).smallest_subnormal, np.inf),
    "codes": Field("f8", ("codes",)),
    "starts": Field("i8", ("starts",), 0, form.MOST),
    "categorical": Field("b1", ("columns",), 0, 1),
}


@dataclass(frozen=True, slots=True, eq=False)
class StoredMaps:
    """The stored result of a fit: its maps and the encoding of their rows.

    A classifier of more than two classes has one map for each class.

    Attributes
    ----------
    maps
        One or more maps on the same features; their f_0 are numbers.
    encoding
        Encoding of the rows; None uses the rows as they are.
    about
        Further JSON values of the owner, such as the names of classes.
    """

    maps: tuple[BoostedMap, ...]
    encoding: Encoding | None = None
    about: Mapping[str, Any] = field(default_factory=dict)


def encode(stored: StoredMaps) -> bytes:
    """Return the maps as bytes, which are a function of the content alone.

    Raises
    ------
    ModelError
        A map's f_0 is a model and cannot be stored as an array.
    FrameError
        `about` is not JSON.
    """
    arrays: dict[str, Array] = {}
    forms = []
    for number, one in enumerate(stored.maps):
        if callable(one.initial):
            raise ModelError(
                "gbmap: expected a number as f_0 to store a map, got a model; store dataclasses.replace(map, "
                "initial=0.0), keep the model by its own means, and put it back after reading"
            )
        forms.append({"unit": one.unit, "loss": one.loss})
        arrays[f"map.{number}.numbers"] = np.array([one.beta, one.initial], np.float64)
        for name in ("weights", "constants", "offsets", "signs"):
            arrays[f"map.{number}.{name}"] = getattr(one, name)
    if stored.encoding is not None:
        for name in ("means", "deviations", "codes", "starts", "categorical"):
            arrays[f"encoding.{name}"] = getattr(stored.encoding, name)
    meta = {"maps": forms, "encoded": stored.encoding is not None, "about": dict(stored.about)}
    return frames.encode(KIND, VERSION, meta, arrays)


def decode(data: bytes | memoryview) -> StoredMaps:
    """Return what `encode` wrote; its maps and its encoding give the same bits as the originals.

    Raises
    ------
    FrameError
        The bytes are damaged, cut off, foreign or of another version, or do not describe a map.
    """
    frame = frames.decode(data, KIND, VERSION)
    forms, about = frame.meta.get("maps"), frame.meta.get("about")
    require(isinstance(forms, list) and bool(forms) and isinstance(about, dict), "maps and what they are about", _FRAME)
    maps = tuple(_map(frame.arrays, number, meta) for number, meta in enumerate(forms or []))
    require(len({one.features for one in maps}) == 1, "maps on the same features", _FRAME)
    encoding = _encoding(frame.arrays) if frame.meta.get("encoded") is True else None
    if encoding is not None:
        require(
            len(encoding.columns) == maps[0].features,
            "an encoding of as many columns as the maps have features",
            _FRAME,
        )
    return StoredMaps(maps, encoding, about or {})


def _map(arrays: Mapping[str, Array], number: int, meta: object) -> BoostedMap:
    if not isinstance(meta, dict) or meta.get("unit") not in UNITS or meta.get("loss") not in LOSSES:
        raise FrameError(f"{_FRAME}: expected the unit and the loss of a map, got {meta!r:.200}")
    found = form.read(_MAP, form.part(f"map.{number}.", arrays), f"{_FRAME}, map {number}")
    beta, initial = found.pop("numbers").tolist()
    try:
        return BoostedMap(**found, unit=meta["unit"], beta=beta, loss=meta["loss"], initial=initial)
    except ModelError as error:
        raise FrameError(f"{_FRAME} that holds no map: {error}") from error


def _encoding(arrays: Mapping[str, Array]) -> Encoding:
    found = form.read(_ENCODING, form.part("encoding.", arrays), _FRAME)
    codes, starts, categorical = found["codes"], found["starts"], found["categorical"]
    require_starts(starts, len(categorical), len(codes), "codes of each column", _FRAME)
    form.expect(not np.diff(starts)[~categorical].any(), "codes of categories only", starts, _FRAME)
    return Encoding(**{name: sealed(array, array.dtype) for name, array in found.items()})
