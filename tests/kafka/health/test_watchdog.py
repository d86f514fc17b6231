"""Laws of the watchdog: it ends a worker whose loop stands still, and no other."""

import asyncio
import subprocess
import sys
import threading

import pytest

from glasstream.kafka.health.watchdog import Watchdog
from glasstream.kafka.transport.worker import ExitCode


def test_it_bites_once_when_it_is_not_patted() -> None:
    bitten: list[float] = []
    done = threading.Event()

    def bite(silent: float) -> None:
        bitten.append(silent)
        done.set()

    async def run() -> None:
        watchdog = Watchdog(0.2, bite)
        await watchdog.start()
        assert await asyncio.to_thread(done.wait, 20)
        await watchdog.stop()

    asyncio.run(run())
    assert len(bitten) == 1
    assert bitten[0] > 0.2


def test_it_does_not_bite_while_it_is_patted_nor_after_its_end() -> None:
    bitten: list[float] = []

    async def run() -> None:
        watchdog = Watchdog(30.0, bitten.append)
        await watchdog.start()
        watchdog.feed()
        await watchdog.stop()
        await asyncio.to_thread(watchdog._thread.join, 20)
        assert not watchdog._thread.is_alive()

    asyncio.run(run())
    assert not bitten


STALLED = """
import asyncio, threading
from glasstream.kafka.health.watchdog import Watchdog, end_process
from glasstream.kafka.transport.worker import ExitCode

async def run():
    await Watchdog(0.2, end_process(ExitCode.STALLED)).start()
    threading.Event().wait()  # the loop never turns again

asyncio.run(run())
"""


@pytest.mark.program
def test_a_stalled_process_ends_with_its_own_code_and_says_so() -> None:
    ended = subprocess.run([sys.executable, "-c", STALLED], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == ExitCode.STALLED
    assert "has been blocked" in ended.stderr
