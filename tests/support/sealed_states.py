"""States of aggregator and novelty detector under an HMAC key."""

import asyncio
from typing import Any

from glasstream.kafka.stages.aggregator import AggregatorTask
from glasstream.kafka.stages.novelty import NoveltyTask
from glasstream.models.codec.authentication import Key
from tests.support.forged_states import SETTINGS as AGGREGATOR
from tests.support.forged_states import START, committed, feed
from tests.support.novelty_states import LOG, SETTINGS, Broker, Inline

OLD, NEW = b"an old key of sixteen bytes", b"a new key of sixteen bytes"


State = dict[bytes, bytes]


def aggregated(key: Key | None) -> State:
    task = AggregatorTask(0, AGGREGATOR, key=key)
    task.restore({}, 0, 10)
    feed(task, [START, 20])
    return committed(task)


def novelty_task(key: Key | None) -> NoveltyTask:
    fitter: Any = Inline()
    return NoveltyTask(0, SETTINGS, fitter, key=key)


def watched(key: Key | None) -> State:
    broker, task = Broker(), novelty_task(key)
    task.restore({}, 0, len(LOG))
    for message in LOG[:60]:
        asyncio.run(task.feed([message]))
        broker.commit(task)
    return broker.state
