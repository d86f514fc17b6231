"""Maps as bytes and back."""

from dataclasses import replace

import numpy as np
import pytest

from glasstream.base.errors import FrameError, ModelError
from glasstream.detect.gbmap.encoding import Encoding
from glasstream.detect.gbmap.storage import KIND, VERSION, StoredMaps, decode, encode
from glasstream_topics import frames
from tests.support.gbmap_examples import generator, random_map

ROWS = np.column_stack((generator(1).normal(size=(60, 2)), generator(2).integers(0, 3, size=60), np.full(60, np.nan)))
ENCODING = Encoding.learn(ROWS, [2])
STORED = StoredMaps(
    (replace(random_map(5, 6, 1), initial=0.1), random_map(3, 6, 2, "relu", loss="logistic")),
    ENCODING,
    {"classes": ["a", 1, 0.5]},
)
DATA = encode(STORED)


def rewritten(meta: dict[str, object] | None = None, **arrays: np.ndarray | None) -> bytes:
    """The stored maps with something changed and a checksum that fits."""
    frame = frames.decode(DATA, KIND, VERSION)
    changed = {name.replace("__", "."): array for name, array in arrays.items()}
    kept = {name: array for name, array in {**frame.arrays, **changed}.items() if array is not None}
    return frames.encode(KIND, VERSION, {**frame.meta, **(meta or {})}, kept)


def test_what_was_stored_gives_the_same_bits() -> None:
    read = decode(DATA)
    assert read.about == {"classes": ["a", 1, 0.5]}
    assert read.encoding is not None
    rows = ENCODING.encode(ROWS)
    assert read.encoding.encode(ROWS).tobytes() == rows.tobytes()
    for one, other in zip(read.maps, STORED.maps, strict=True):
        assert one.embed(rows).tobytes() == other.embed(rows).tobytes()
        assert one.predict(rows).tobytes() == other.predict(rows).tobytes()
        assert (one.unit, one.loss, one.beta) == (other.unit, other.loss, other.beta)
    assert encode(read) == DATA


def test_maps_without_an_encoding_are_read_without_one() -> None:
    assert decode(encode(StoredMaps(STORED.maps))).encoding is None


def test_every_damaged_byte_is_noticed() -> None:
    for place in range(0, len(DATA), 7):
        damaged = bytearray(DATA)
        damaged[place] ^= 0x10
        with pytest.raises(FrameError):
            decode(bytes(damaged))


@pytest.mark.parametrize("length", [0, 10, 41, len(DATA) // 2, len(DATA) - 1])
def test_a_file_that_is_cut_off_is_refused(length: int) -> None:
    with pytest.raises(FrameError):
        decode(DATA[:length])


def test_another_kind_or_version_of_record_is_refused() -> None:
    for kind, version in (("model", VERSION), (KIND, VERSION + 1)):
        with pytest.raises(FrameError, match="expected a gbmap frame of version 1"):
            decode(frames.encode(kind, version, {}, {}))


@pytest.mark.parametrize(
    "data",
    [
        rewritten(map__0__weights=np.full((5, 6), np.nan)),
        rewritten(map__0__weights=np.zeros((4, 6))),
        rewritten(map__0__weights=np.zeros((5, 7))),
        rewritten(map__0__weights=None),
        rewritten(map__0__signs=np.zeros(5)),
        rewritten(map__0__signs=np.ones(5, np.float32)),
        rewritten(map__0__numbers=np.array([0.0, 0.0])),
        rewritten(map__0__numbers=np.array([1.0, np.inf])),
        rewritten(encoding__deviations=np.array([1.0, 0.0, 1.0, np.inf])),
        rewritten(encoding__deviations=np.array([1.0, np.nan, 1.0, np.inf])),
        rewritten(encoding__means=np.zeros(3)),
        rewritten(encoding__starts=np.array([0, 0, 0, 9, 9])),
        rewritten(encoding__starts=np.array([0, 3, 3, 3, 3])),
        rewritten(encoding__codes=np.array([0.0, 1.0])),
        rewritten({"maps": []}),
        rewritten({"maps": [{"unit": "tanh", "loss": "quadratic"}]}),
        rewritten({"maps": [1]}),
        rewritten({"about": 3}),
    ],
    ids=range(18),
)
def test_content_that_is_no_map_is_refused_though_its_checksum_fits(data: bytes) -> None:
    with pytest.raises(FrameError, match=r"^a gbmap frame"):
        decode(data)


def test_a_model_as_initial_is_not_stored() -> None:
    with pytest.raises(ModelError, match="expected a number as f_0 to store a map, got a model"):
        encode(StoredMaps((replace(random_map(2, 3), initial=lambda rows: rows[:, 0]),)))
