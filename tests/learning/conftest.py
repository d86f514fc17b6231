"""Ties between categories are broken by the order of appearance here: by River as by the compiled models."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from river.tree.splitter.nominal_splitter_classif import NominalSplitterClassif

from glasstream.learning import river

STAYS_IN_RIVER = "from Python 3.12 on, sum() compensates rounding: every model learns in River, and none is compiled"
compiled_only = pytest.mark.skipif(river.COMPENSATED, reason=STAYS_IN_RIVER)


class Ordered(dict):
    """A set in order of insertion."""

    def add(self, value: object) -> None:
        self[value] = None


@contextmanager
def ordered_categories() -> Iterator[None]:
    """River keeps the categories of a leaf in a set, whose order depends on PYTHONHASHSEED for texts."""
    make = NominalSplitterClassif.__init__

    def ordered(self: NominalSplitterClassif) -> None:
        make(self)
        self._att_values = Ordered()

    NominalSplitterClassif.__init__ = ordered
    try:
        yield
    finally:
        NominalSplitterClassif.__init__ = make


@pytest.fixture(autouse=True, scope="package")
def categories_in_order() -> Iterator[None]:
    if river.COMPENSATED:
        pytest.skip(STAYS_IN_RIVER)
    with ordered_categories():
        yield
