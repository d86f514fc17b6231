"""How many examples and cases a test tries.

A test says how many examples of Hypothesis are normal, and the profile how many of them there are.

The profiles are in `tests/conftest.py`: `check` for the loop of an edit, `ci` with a quarter of the normal number,
`long` with all (`./ops/test --long`), and `thorough` (`./ops/test --hypothesis-profile thorough`).
"""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

NORMAL = 100
FEWEST = 3


def examples(normal: int) -> settings:
    """Return the decorator of a test that tries `normal` examples in the profile `long`."""
    return settings(max_examples=max(FEWEST, normal * settings.default.max_examples // NORMAL))


def some(chosen: Iterable[Any], cases: Iterable[Any], rest: pytest.MarkDecorator = pytest.mark.long) -> list[Any]:
    """Return all cases for `pytest.mark.parametrize`, and mark those that are not chosen as long, or as `rest` says.

    Raises
    ------
    ValueError
        A chosen case is not among the cases.
    """
    wanted, every = {*chosen}, list(cases)
    if unknown := wanted - {*every}:
        raise ValueError(f"expected some of {every}, got {sorted(unknown)}")
    return [
        pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=() if case in wanted else rest)
        for case in every
    ]
