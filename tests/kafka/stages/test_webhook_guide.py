"""The program of `notify.md` that verifies signatures accepts what the notifier signs, and nothing else."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from glasstream.kafka.stages.webhook_request import signature
from tests.support.docs_pages import page

KEY, OTHER = b"a key of sixteen bytes", b"another of sixteen bytes"
MOST_LINES = 10
"""Largest number of lines of the function."""


def is_genuine() -> Callable[..., bool]:
    (block,) = (block for block in page("notify.md").blocks if block.kind == "file")
    names: dict[str, Any] = {}
    exec(compile(block.text, block.where, "exec"), names)
    assert len(block.text.partition("def ")[2].splitlines()) <= MOST_LINES
    return names["is_genuine"]


@given(st.binary(max_size=60), st.integers(10**9, 2**40), st.floats(-299, 299), st.permutations([KEY, OTHER]))
def test_what_is_signed_with_the_key_is_accepted(body: bytes, time: int, late: float, keys: list[bytes]) -> None:
    verify = is_genuine()
    for chosen in ([KEY], keys):
        assert verify(signature(chosen, body, time), body, KEY, now=time + late)


@given(st.binary(max_size=60), st.binary(max_size=60), st.integers(10**9, 2**40))
def test_another_body_key_or_time_is_refused(body: bytes, other: bytes, time: int) -> None:
    verify, header = is_genuine(), signature([KEY], body, time)
    assert verify(header, other, KEY, now=time) == (other == body)
    assert not verify(header, body, OTHER, now=time)
    assert not verify(header.replace(f"t={time}", f"t={time + 1}"), body, KEY, now=time)
    assert not any(verify(header, body, KEY, now=time + late) for late in (301, -301))


@pytest.mark.parametrize("header", ["", "t=1", "v1=", "v1=0,t=1", "t=1,v1=", ",,,", "nonsense", "t=é,v1=é"])
def test_a_header_that_is_no_signature_is_refused(header: str) -> None:
    assert not is_genuine()(header, b"{}", KEY, now=1)
