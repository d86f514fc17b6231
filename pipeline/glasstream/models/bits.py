"""Bits of a machine word."""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic


@intrinsic
def lowest_bit(typing_context: Any, word: Any) -> Any:
    """The position of the lowest bit that is set in a uint64, one instruction; 64 if none is."""
    if word != types.uint64:
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate
