"""What every compiled predictor shares: a form that is nothing but names and arrays."""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self

from pipeline.models.arrays import Array, require
from pipeline.models.predictor import Output, Task


class Compiled(Protocol):
    """A predictor that can be written as data and read again without executing anything.

    `unpack(meta, arrays)` of what `pack` gave evaluates to the same bits.
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
        """JSON values, and arrays of numbers."""

    @classmethod
    def unpack(cls, meta: Mapping[str, Any], arrays: Mapping[str, Array]) -> Self:
        """The predictor again.

        Raises
        ------
        FrameError
            Something is missing, of the wrong kind, or would let a kernel read out of bounds or never end.
        """


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
