"""Laws of the binary container: content survives, and no bytes do anything but give a frame or raise FrameError."""

import contextlib
from hashlib import blake2b
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from glasstream_topics import frames
from glasstream_topics.errors import FrameError

DTYPES = ["<f8", "<f4", "<i8", "<i4", "<i2", "<i1", "<u8", "<u4", "<u2", "<u1", "?", ">f8", ">i4"]

arrays = st.dictionaries(
    st.text(max_size=5),
    st.sampled_from(DTYPES).flatmap(
        lambda dtype: hnp.arrays(np.dtype(dtype), hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4))
    ),
    max_size=4,
)
finite = st.floats(allow_nan=False, allow_infinity=False)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | finite | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
metas = st.dictionaries(st.text(max_size=8), json_values, max_size=4)


def example() -> bytes:
    return frames.encode(
        "request",
        3,
        {"stream": "a", "n": 2},
        {"x": np.arange(6.0).reshape(2, 3), "b": np.array([True, False])},
    )


def reseal(body: bytes) -> bytes:
    """A frame around any body, its length and checksum made right: damage that only the reader's care can find."""
    body = (24 + len(body)).to_bytes(8, "little") + body[8:]
    return b"GLSF\x01\0\0\0" + blake2b(body, digest_size=16).digest() + body


def with_header(header: bytes, rest: bytes = b"") -> bytes:
    return reseal(bytes(8) + len(header).to_bytes(8, "little") + header + rest)


@given(st.text(max_size=10), st.integers(0, 2**63), metas, arrays)
def test_what_is_encoded_comes_back(
    kind: str, version: int, meta: dict[str, Any], content: dict[str, np.ndarray[Any, Any]]
) -> None:
    data = frames.encode(kind, version, meta, content)
    frame = frames.decode(data, kind, version)
    assert (frame.kind, frame.version) == (kind, version)
    assert orjson.dumps(frame.meta, option=orjson.OPT_SORT_KEYS) == orjson.dumps(meta, option=orjson.OPT_SORT_KEYS)
    assert frame.arrays.keys() == content.keys()
    for name, array in content.items():
        found = frame.arrays[name]
        assert found.shape == array.shape
        assert found.dtype == array.dtype.newbyteorder("<")
        assert found.tobytes() == array.astype(found.dtype).tobytes()  # bits, so that NaN and -0.0 count too
    assert frames.encode(kind, version, frame.meta, frame.arrays) == data


@given(arrays)
def test_the_order_in_which_things_are_given_changes_no_byte(content: dict[str, np.ndarray[Any, Any]]) -> None:
    meta = {"b": 1, "a": {"d": 1, "c": 2}}
    turned = {name: content[name] for name in reversed(content)}
    assert frames.encode("k", 1, meta, content) == frames.encode("k", 1, {"a": {"c": 2, "d": 1}, "b": 1}, turned)


@pytest.mark.parametrize("order", ["C", "F"])
def test_memory_layout_changes_no_byte(order: Any) -> None:
    x = np.arange(24.0).reshape(4, 6)
    assert frames.encode("k", 1, {}, {"x": x}) == frames.encode("k", 1, {}, {"x": np.array(x, order=order)})
    assert frames.encode("k", 1, {}, {"x": x[::2]}) == frames.encode("k", 1, {}, {"x": x[::2].copy()})


def test_arrays_are_aligned_read_only_views_of_the_bytes() -> None:
    data = example()
    for array in frames.decode(data, "request", 3).arrays.values():
        assert array.flags.aligned
        assert not array.flags.writeable
        assert np.may_share_memory(array, np.frombuffer(data, np.uint8))
    shifted = memoryview(b"!" + data)[1:]
    assert frames.decode(shifted, "request", 3).arrays["x"].flags.aligned
    writable = bytearray(data)
    assert not frames.decode(writable, "request", 3).arrays["x"].flags.writeable


def test_every_truncation_and_every_extension_is_an_error() -> None:
    data = example()
    for length in range(len(data)):
        with pytest.raises(FrameError):
            frames.decode(data[:length], "request", 3)
    with pytest.raises(FrameError):
        frames.decode(data + b"\0", "request", 3)


def test_every_flipped_bit_is_an_error() -> None:
    data = example()
    for position in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[position // 8] ^= 1 << position % 8
        with pytest.raises(FrameError):
            frames.decode(damaged, "request", 3)


@given(st.data())
def test_damage_under_a_right_checksum_gives_a_frame_or_a_frame_error(data: st.DataObject) -> None:
    body = bytearray(example()[24:])
    for _ in range(data.draw(st.integers(1, 3))):
        position = data.draw(st.integers(0, len(body) - 1))
        body[position] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(8, len(body)) | st.just(len(body)))
    with contextlib.suppress(FrameError):
        frames.decode(reseal(bytes(body[:cut])), "request", 3)


@given(st.binary(max_size=200))
def test_any_bytes_give_a_frame_error(data: bytes) -> None:
    for candidate in (data, reseal(bytes(16) + data), with_header(data)):
        with pytest.raises(FrameError):
            frames.decode(candidate, "request", 3)


@given(json_values, json_values)
def test_any_json_header_gives_a_frame_or_a_frame_error(first: object, table: object) -> None:
    for header in (
        first,
        {"arrays": table, "kind": "request", "meta": {}, "version": 3},
        {"arrays": [table, first]},
    ):
        with contextlib.suppress(FrameError):
            frames.decode(with_header(orjson.dumps(header)), "request", 3)


@pytest.mark.parametrize(
    ("table", "rest", "message"),
    [
        (b'[["x","O",[1]]]', bytes(8), "known dtype"),
        (b'[["x","f8",[-1]]]', bytes(8), "known dtype"),
        (b'[["x","f8",[true]]]', bytes(8), "known dtype"),
        (b'[["x","f8",[1.0]]]', bytes(8), "known dtype"),
        (b'[["x","f8",[0,4611686018427387904,4]]]', b"", "beyond any memory"),
        (b'[["x","f8",[1000000000]]]', bytes(8), "expected 8000000000 bytes"),
        (b'[["x","f8",[0]],["x","f8",[0]]]', b"", "sorted by name"),
        (b'[["y","f8",[0]],["x","f8",[0]]]', b"", "sorted by name"),
        (b'[["x","b1",[8]]]', b"\2" * 8, "other bytes than 0 and 1"),
        (b'[["x","f8",[1,1,1,1,1,1,1,1,1]]]', bytes(8), "known dtype"),
        (b"[]", bytes(8), "its content ends"),
        (b"{}", b"", "expected a header"),
        (b"[1]", b"", "table of arrays"),
    ],
)
def test_a_crafted_table_is_refused_before_anything_is_allocated(table: bytes, rest: bytes, message: str) -> None:
    header = b'{"arrays":%s,"kind":"request","meta":{},"version":3}' % table
    padded = header + b" " * (-(40 + len(header)) % 8)
    with pytest.raises(FrameError, match=message):
        frames.decode(with_header(padded, rest), "request", 3)


def test_deep_nesting_is_an_error() -> None:
    with pytest.raises(FrameError):
        frames.decode(with_header(b"[" * 100_000), "request", 3)


@pytest.mark.parametrize(("kind", "version"), [("contributions", 3), ("request", 2), ("request", 4)])
def test_another_kind_or_version_is_named(kind: str, version: int) -> None:
    with pytest.raises(FrameError, match=f"expected a {kind} frame of version {version}, got 'request' of version 3"):
        frames.decode(example(), kind, version)


@pytest.mark.parametrize(
    "meta",
    [{"a": float("nan")}, {"a": [None, {"b": float("inf")}]}, {1: 2}, {"a": 2**64}, {"a": object()}, {"a": "\ud800"}],
)
def test_what_json_cannot_hold_is_refused(meta: dict[str, object]) -> None:
    with pytest.raises(FrameError, match="the meta of a k frame"):
        frames.encode("k", 1, meta, {})


@pytest.mark.parametrize(
    "array", [np.array([object()]), np.array(["a"]), np.array([1j]), np.zeros(1, np.float16), np.zeros((1,) * 9)]
)
def test_foreign_arrays_are_refused(array: np.ndarray[Any, Any]) -> None:
    with pytest.raises(FrameError, match="array 'x' of a k frame"):
        frames.encode("k", 1, {}, {"x": array})


def test_a_strided_view_is_refused() -> None:
    with pytest.raises(FrameError, match="contiguous"):
        frames.decode(memoryview(example())[::2], "request", 3)
