"""Translate the class keys of a River model to the texts of the classes."""

from collections.abc import Iterable, Mapping

from glasstream.base.errors import ModelError
from glasstream.models.predictors.predictor import NO_LABEL


class Labels:
    """The classes of a stream, in the order of their columns.

    Parameters
    ----------
    texts
        The text of each River class key. A predictor drops other keys from its output, for example the second key of a
        binary model that has seen a single class. They have no column, and the label is the first of the largest among
        the remaining classes.

    Raises
    ------
    ModelError
        Two keys have the same text.
    """

    def __init__(self, texts: Mapping[object, str]) -> None:
        self.classes = tuple(texts.values())
        if len(set(self.classes)) != len(self.classes):
            raise ModelError(f"expected another text for each class, got {', '.join(self.classes)}")
        self._columns = {key: column for column, key in enumerate(texts)}

    def column(self, key: object) -> int:
        """Return the column of a River key, or -1."""
        return self._columns.get(key, NO_LABEL)

    def columns(self, keys: Iterable[object]) -> list[int]:
        """Return the columns of River's keys, in their order."""
        return [self.column(key) for key in keys]
