"""What every compiled predictor shares: a form that is nothing but names and arrays."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

from glasstream.models.arrays import Array, require
from glasstream.models.predictor import Output, Task


class Compiled(Protocol):
    """A predictor that can be written as data and read again without executing anything.

    It is `Simple` or `Composed`; `glasstream.models.serialization` knows them all, writes and reads them.
    """

    form: ClassVar[str]
    """Names the class in a snapshot."""
    task: Task
    features: tuple[str, ...]
    classes: tuple[str, ...]
    compiled: bool

    def evaluate(self, rows: Any) -> Output:
        """As `Predictor.evaluate`."""

    def pack(self) -> tuple[dict[str, object], dict[str, Array]]:
        """JSON values, and arrays of numbers; without those of its parts."""


class Simple(Compiled, Protocol):
    """One that stands for itself: `unpack(meta, arrays)` of what `pack` gave evaluates to the same bits."""

    @classmethod
    def unpack(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """The predictor again.

        Raises
        ------
        FrameError
            Something is missing, of the wrong kind, or would let a kernel read out of bounds or never end.
        """


@runtime_checkable
class Composed(Compiled, Protocol):
    """One that asks others: `assemble(meta, arrays, parts)` of what `pack` gave evaluates to the same bits."""

    parts: tuple[Compiled, ...]

    @classmethod
    def assemble(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array], parts: tuple[Compiled, ...]) -> Self:
        """The predictor again, of its parts read before; errors as of `Simple.unpack`, also where parts do not fit."""


def texts(meta: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """The list of texts under `key` of a snapshot.

    Raises
    ------
    FrameError
        There is none.
    """
    found = meta.get(key)
    require(isinstance(found, list) and all(isinstance(text, str) for text in found), f"{key!r} as a list of texts")
    return tuple(found or ())


def choice(meta: Mapping[str, Any], key: str, among: Sequence[str]) -> str:
    """The text under `key` of a snapshot, one of `among`.

    Raises
    ------
    FrameError
        It is another one, or none.
    """
    found = meta.get(key)
    require(isinstance(found, str) and found in among, f"{key!r} to be one of {', '.join(among)}")
    return str(found)
