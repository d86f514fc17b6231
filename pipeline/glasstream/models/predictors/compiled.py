"""The common part of compiled predictors: they consist of names and arrays only."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

from glasstream.models.predictors.arrays import Array, require
from glasstream.models.predictors.predictor import Output, Task


class Compiled(Protocol):
    """A predictor that can be written as data and read again without executing anything.

    Each compiled predictor is `Simple` or `Composed`. `glasstream.models.codec.serialization` lists, writes and reads
    them.
    """

    form: ClassVar[str]
    """Name of the class in a snapshot."""
    task: Task
    features: tuple[str, ...]
    classes: tuple[str, ...]
    compiled: bool

    def evaluate(self, rows: Any) -> Output:
        """Evaluate rows; see `Predictor.evaluate`."""

    def pack(self) -> tuple[dict[str, object], dict[str, Array]]:
        """Return JSON values and arrays of numbers, without those of the parts."""


class Simple(Compiled, Protocol):
    """A predictor without parts: `unpack(meta, arrays)` of the result of `pack` evaluates to the same bits."""

    @classmethod
    def unpack(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """Return the predictor from the result of `pack`.

        Raises
        ------
        FrameError
            Something is missing or of the wrong kind, or a kernel would read out of bounds or never end.
        """


@runtime_checkable
class Composed(Compiled, Protocol):
    """A predictor that calls others: `assemble(meta, arrays, parts)` of the result of `pack` keeps every bit."""

    parts: tuple[Compiled, ...]

    @classmethod
    def assemble(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array], parts: tuple[Compiled, ...]) -> Self:
        """Return the predictor from the result of `pack` and its parts.

        Errors are those of `Simple.unpack`, also if the parts do not fit.
        """


def texts(meta: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Return the list of texts under `key` of a snapshot.

    Raises
    ------
    FrameError
        There is no such list.
    """
    found = meta.get(key)
    require(isinstance(found, list) and all(isinstance(text, str) for text in found), f"{key!r} as a list of texts")
    return tuple(found or ())


def choice(meta: Mapping[str, Any], key: str, among: Sequence[str]) -> str:
    """Return the text under `key` of a snapshot, one of `among`.

    Raises
    ------
    FrameError
        The text is missing or another one.
    """
    found = meta.get(key)
    require(isinstance(found, str) and found in among, f"{key!r} to be one of {', '.join(among)}")
    return str(found)
