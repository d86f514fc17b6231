"""The live page over a long history: how soon it paints, what its server costs while records keep coming.

    python tests/benchmarks/page.py [--records 100000] [--features 10] [--minutes 10] [--rate 50] [--kafka HOST:PORT]
    python tests/benchmarks/page.py --streams 500 [--viewers 100] [--minutes 1] [--rate 1000] [--kafka HOST:PORT]

Writes importance records to a real Kafka (one of this machine unless given), starts `glasstream page` against it, opens
it in the system's Chromium twice, at once and when all was read back, and goes on writing `rate` records a second with
the page open. Needs the extra `test`, and Chromium. One JSON object:

- `read_back_s`: from the start of the server until all was read
- `first_paint_early_ms`, `first_paint_ms`: from opening the page until a stream is drawn, while the server reads back
  and after it has (goal: at most 2000)
- `rss_mib`: resident size of the server at each tenth of the minutes; `growth`: the last over the first (goal: 1.1)
- `cpu_share`: of a core, of the server over these minutes (goal: 0.10)
- `tab_heap_mib`: JavaScript heap of the tab at the first and the last tenth
- `drawn`: points in the chart at the end; `newest_drawn`: whether the newest record is the last one of them

With `--streams`, it measures the overview instead: 1,100 predictions and 11 importance records of each stream at the
start, then `rate` predictions a second in turn, while so many viewers follow the overview.

- `state_bytes`: size of the first message to a viewer
- `rss_mib`: resident size of the server at the end
- `cpu_share_alone`, `cpu_share`: of a core, of the server without viewers and with them (goal: at most 0.5 more)
- `messages`, `mib`: what all viewers received
- `open_s`: from opening a stream whose history is not kept until all its importance records are there, read back from
  all these records; null if the history is kept
- `build_ms`: CPU time in which this process builds the rows of all streams, each with 1,000 events, and encodes them
"""

import argparse
import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from contextlib import ExitStack
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2])  # the checkout, of which `tests` is a package

import aiohttp
import psutil
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from playwright.sync_api import Page, sync_playwright

from glasstream.app.brokers.local import local_kafka
from glasstream.app.page.overview import Overview, Rows
from glasstream.app.page.store import Store
from glasstream.kafka.transport.connection import Connection
from glasstream_topics import admin, importance, predictions
from tests.support.page_records import importance_record, prediction_record

WAIT_MS = 300_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=10)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--kafka")
    parser.add_argument("--streams", type=int, default=0)
    parser.add_argument("--viewers", type=int, default=100)
    options = parser.parse_args()
    with ExitStack() as stack:
        print(json.dumps((measure_overview if options.streams else measure)(options, stack)))


def measure(options: argparse.Namespace, stack: ExitStack) -> dict[str, object]:
    kafka = options.kafka or stack.enter_context(local_kafka()).bootstrap
    prefix = f"bench-{uuid.uuid4().hex[:8]}."
    client = AdminClient(Connection(kafka).client())
    admin.create(client, {"events": 1, "requests": 1}, prefix)
    stack.callback(admin.delete, client, prefix)
    producer = Producer(Connection(kafka).producer(linger_ms=20))
    names = [f"f{at:03d}" for at in range(options.features)]

    def put(number: int) -> None:
        values = {name: (at + number % 100 / 100) / len(names) for at, name in enumerate(names)}
        producer.produce(f"{prefix}importance", importance_record(number * 100 + 99, values), b"s")
        producer.poll(0)

    for number in range(options.records):
        put(number)
        if number % 10_000 == 0:
            producer.flush()
    producer.flush()

    begun = time.monotonic()
    server, address = served(kafka, prefix, stack)
    browser = stack.enter_context(sync_playwright()).chromium.launch(
        executable_path=shutil.which("chromium"), chromium_sandbox=os.geteuid() != 0
    )
    early = browser.new_page()
    early.goto(address)
    first_early = painted(early)
    early.wait_for_function("() => glasstream.known.reading === null", timeout=WAIT_MS)
    read_back = time.monotonic() - begun
    early.close()
    page = browser.new_page()
    page.goto(address)
    first = painted(page)

    number = options.records
    started = time.monotonic()
    cpu = server.cpu_times()
    rss: list[float] = []
    heap: list[float] = []
    seconds = options.minutes * 60
    while (elapsed := time.monotonic() - started) < seconds:
        while number - options.records < elapsed * options.rate:
            put(number)
            number += 1
        producer.flush()
        if elapsed >= seconds * (len(rss) + 1) / 10:
            rss.append(round(server.memory_info().rss / 2**20, 1))
            heap.append(page.evaluate("() => performance.memory.usedJSHeapSize") / 2**20)
        time.sleep(0.1)
    spent = server.cpu_times()
    share = (spent.user + spent.system - cpu.user - cpu.system) / (time.monotonic() - started)
    newest = (number - 1) * 100 + 99
    page.wait_for_function("last => glasstream.known.importance.last.seq === last", arg=newest, timeout=WAIT_MS)
    x = page.evaluate("() => glasstream.drawn.importance.x")
    return {
        "records": options.records,
        "features": options.features,
        "read_back_s": round(read_back, 1),
        "first_paint_early_ms": round(first_early),
        "first_paint_ms": round(first),
        "minutes": options.minutes,
        "rate": options.rate,
        "rss_mib": rss,
        "growth": round(rss[-1] / rss[0], 3),
        "cpu_share": round(share, 4),
        "tab_heap_mib": [round(heap[0], 1), round(heap[-1], 1)],
        "drawn": len(x),
        "newest_drawn": x[-1] == newest,
        "load": [round(one, 1) for one in os.getloadavg()],
    }


def measure_overview(options: argparse.Namespace, stack: ExitStack) -> dict[str, object]:
    kafka = options.kafka or stack.enter_context(local_kafka()).bootstrap
    prefix = f"bench-{uuid.uuid4().hex[:8]}."
    client = AdminClient(Connection(kafka).client())
    admin.create(client, {"events": 1, "requests": 1}, prefix)
    stack.callback(admin.delete, client, prefix)
    producer = Producer(Connection(kafka).producer(linger_ms=20))
    names = [f"stream-{at:04d}" for at in range(options.streams)]
    values = {f"feature_{at}": at / 10 for at in range(options.features)}

    def put(seq: int, name: str) -> None:
        record = prediction_record(seq, float(seq % 3 == 0), target="yes" if seq % 3 else "no", stream=name)
        producer.produce(f"{prefix}predictions", record, name.encode())
        if seq % 100 == 99:
            producer.produce(f"{prefix}importance", importance_record(seq, values, stream=name), name.encode())
        producer.poll(0)

    begin = 1_100
    for seq in range(begin):
        for name in names:
            put(seq, name)
        if seq % 10 == 0:
            producer.flush()
    producer.flush()
    server, address = served(kafka, prefix, stack, "--set", f"page.history={begin * options.streams}")
    sent = begin * options.streams

    async def load(viewers: int, seconds: float) -> tuple[float, int, int, int]:
        """Share of a core, size of the first message, and number and bytes of all messages."""
        nonlocal sent
        first = messages = size = 0
        timeout = aiohttp.ClientTimeout(total=None)
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(timeout=timeout, connector=connector, read_bufsize=2**21) as session:

            async def follow() -> None:
                nonlocal first, messages, size
                async with session.get(f"{address}events?top=8") as answer:
                    async for line in answer.content:
                        if line.startswith(b"data: "):
                            first = first or len(line)
                            messages, size = messages + 1, size + len(line)

            tasks = [asyncio.create_task(follow()) for _ in range(viewers)]
            while messages < viewers:
                await asyncio.sleep(0.1)
            cpu, begun, before = server.cpu_times(), time.monotonic(), sent
            while (elapsed := time.monotonic() - begun) < seconds:
                while sent - before < elapsed * options.rate:
                    put(sent // options.streams, names[sent % options.streams])
                    sent += 1
                await asyncio.sleep(0.05)
            spent, elapsed = server.cpu_times(), time.monotonic() - begun
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        return (spent.user + spent.system - cpu.user - cpu.system) / elapsed, first, messages, size

    async def settled() -> None:
        """Wait until the server has read back all that was there."""
        async with aiohttp.ClientSession(read_bufsize=2**22) as session, session.get(f"{address}events") as answer:
            async for line in answer.content:
                if line.startswith(b"data: ") and json.loads(line[6:])["reading"] is None:
                    return

    async def opened(name: str) -> float | None:
        """Seconds until all records of a stream are there; None if its history was kept, so that nothing is read."""
        begun, messages = time.monotonic(), 0
        url = f"{address}events"
        async with (
            aiohttp.ClientSession(read_bufsize=2**22) as session,
            session.get(url, params={"stream": name}) as answer,
        ):
            async for line in answer.content:
                if not line.startswith(b"data: "):
                    continue
                messages += 1
                state = json.loads(line[6:])
                if state.get("epoch") is not None and messages == 1:
                    return None
                if state.get("importance", {}).get("records", 0) >= begin // 100:
                    return round(time.monotonic() - begun, 2)
        raise RuntimeError(f"expected the history of {name}, got the end of the stream after {messages} messages")

    asyncio.run(settled())
    alone, *_ = asyncio.run(load(0, options.minutes * 30))
    share, first, messages, size = asyncio.run(load(options.viewers, options.minutes * 60))
    return {
        "streams": options.streams,
        "viewers": options.viewers,
        "rate": options.rate,
        "state_bytes": first,
        "rss_mib": round(server.memory_info().rss / 2**20, 1),
        "cpu_share_alone": round(alone, 4),
        "cpu_share": round(share, 4),
        "messages": messages,
        "mib": round(size / 2**20, 1),
        "open_s": asyncio.run(opened(names[-1])),
        "build_ms": build_ms(names, values),
        "load": [round(one, 1) for one in os.getloadavg()],
    }


def build_ms(names: list[str], values: dict[str, float]) -> float:
    store = Store(1, 100, len(names))
    for name in names:
        for seq in range(1_000):
            record = prediction_record(seq, 1.0, prediction=seq % 7 + 0.5, target=float(seq % 5), stream=name)
            store.take("predictions", predictions.decode(record), 1)
        store.take("importance", importance.decode(importance_record(9, values, stream=name)), 1)
    begun = time.process_time()
    Overview(Rows(store)).message(0.0)
    return round(1_000 * (time.process_time() - begun), 2)


def served(kafka: str, prefix: str, stack: ExitStack, *options: str) -> tuple[psutil.Process, str]:
    """The server's process, and its address."""
    log = Path(stack.enter_context(tempfile.TemporaryDirectory())) / "page.log"
    command = [sys.executable, "-m", "glasstream.app.command.main", "page", "--broker", kafka, "--prefix", prefix]
    with log.open("wb") as out:
        process = subprocess.Popen([*command, "--port", "0", *options], stdout=out, stderr=subprocess.STDOUT)
    stack.callback(process.wait)
    stack.callback(process.kill)
    while not (found := re.search(r"page: (http://\S+)", log.read_text())):
        if process.poll() is not None:
            sys.exit(log.read_text())
        time.sleep(0.02)
    return psutil.Process(process.pid), found[1]


def painted(page: Page) -> float:
    page.wait_for_function("() => glasstream.firstPaint !== null", timeout=WAIT_MS)
    return float(page.evaluate("() => glasstream.firstPaint"))


if __name__ == "__main__":
    main()
