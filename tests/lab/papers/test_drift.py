"""Alarms on explanations of the bundled stream, with the defaults."""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import chain, islice
from multiprocessing import get_context
from statistics import median

import orjson
import pytest

from glasstream.app.configuration import load
from glasstream.events.sources.bundled import BundledStream
from glasstream.events.sources.messages import pack
from glasstream.flow.reference import Reference
from glasstream_topics import events
from tests.support.examples import some

CHANGE = 10_000
OLD, NEW = {"salary", "commission", "loan"}, {"age", "elevel"}
"""Features of the labelling function before the change, and features of the one after it only."""


def alarms(seed: int) -> list[dict]:
    """The records of `drift`, until a while after the change."""
    methods = "explain.methods=ipfi,isage,ipdp"
    settings = load(assignments=["model.name=forest", "model.task=classification", methods, f"seed={seed}"])
    source = BundledStream(seed)

    def messages() -> Iterator[tuple[bytes, bytes]]:
        for value, _ in pack(islice(source.events(), CHANGE + 2_000), 100, 1_000_000):
            yield events.key(source.stream), value

    return [orjson.loads(record) for topic, record in Reference(settings).run(messages()) if topic == "drift"]


@pytest.mark.slow
@pytest.mark.parametrize("seeds", some([range(1, 3)], [range(1, 3), range(3, 6), range(6, 11)]), ids=str)
def test_the_bundled_change_is_told_of_and_before_it_only_that_the_model_still_learns(seeds: range) -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        runs = list(pool.map(alarms, seeds))
    early = [[one for one in found if 3_000 <= one["row"] < CHANGE] for found in runs]
    assert median(map(len, early)) <= 2
    for one in chain.from_iterable(early):
        if one["signal"] == "loss":
            assert one["after"] < one["before"], one
        else:
            assert one["feature"] in OLD and one["signal"] == "importance" and one["after"] > one["before"], one
    for found in runs:
        told = {one["feature"] for one in found if one["row"] >= CHANGE}
        assert told & OLD and told & NEW
