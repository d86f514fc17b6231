"""Ties between categories are broken by the order of appearance here: by River as by the compiled models."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from river.tree.splitter.nominal_splitter_classif import NominalSplitterClassif


def every(models: Mapping[str, Any]) -> pytest.MarkDecorator:
    """Run a test with each model of a mapping."""
    return pytest.mark.parametrize("make", [pytest.param(make, id=name) for name, make in models.items()])


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
    with ordered_categories():
        yield
