"""Bits of a machine word."""

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.extending import intrinsic


@intrinsic
def lowest_bit(typing_context: Any, word: Any) -> Any:
    """Return the position of the lowest bit that is set in a uint64, with one instruction; 64 if no bit is set."""
    if word != types.uint64:
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return types.uint64(types.uint64), generate
