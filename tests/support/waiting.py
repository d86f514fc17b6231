"""Wait for a condition, with a deadline."""

import asyncio
import time
from collections.abc import Callable

DEADLINE = 150.0
"""Seconds after which what did not happen counts as failed: many times what it takes on a machine that is busy."""


def holds_within(seconds: float, condition: Callable[[], object]) -> bool:
    """Wait until a condition holds, or for so long; return whether it does."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def wait_for(what: str, condition: Callable[[], object], deadline: float = DEADLINE) -> None:
    """Wait until a condition holds; fail after `deadline` seconds."""
    if not holds_within(deadline, condition):
        raise TimeoutError(f"not within {deadline:.0f} s: {what}")


async def until(condition: Callable[[], bool], timeout: float = DEADLINE) -> None:
    """Wait until a condition holds, and let other tasks run; fail after `timeout` seconds."""
    async with asyncio.timeout(timeout):
        while not condition():
            await asyncio.sleep(0.02)
