"""An explainer and an aggregator that have warmed up compile nothing more for their first blocks."""

import pickle
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import orjson
import pytest

from glasstream.app.configuration import load
from glasstream.events.message import Message
from glasstream.flow.learner.warm_up import messages
from glasstream.flow.reference import Reference
from glasstream.models.codec import snapshot as codec
from glasstream.models.predictors.predictor import Predictor
from glasstream_topics import contributions, requests
from glasstream_topics.contributions import Contributions
from glasstream_topics.requests import ExplainRequest

KEY = b"a key of sixteen bytes"
PROGRAM = """
import gc, pickle, sys
from numba.core.dispatcher import Dispatcher
from glasstream.flow.aggregator.stream import StreamAggregator
from glasstream.app.configuration import load
from glasstream.explain.explainer import explain
from glasstream.models.codec import snapshot as codec
from glasstream.kafka.stages.warm_up import warm_up_aggregator, warm_up_explainer
from glasstream_topics import contributions, requests

def kernels():
    return {(one.py_func.__module__, one.py_func.__name__, len(one.signatures))
            for one in gc.get_objects() if isinstance(one, Dispatcher)}

stage, file, *assignments = sys.argv[1:]
settings = load(assignments=assignments)
log = pickle.load(open(file, "rb"))
if stage == "explainer":
    warm_up_explainer(settings)
else:
    warm_up_aggregator(settings)
before = kernels()
assert any(count for _, _, count in before), "nothing was compiled"
if stage == "explainer":
    for data, model in log["requests"]:
        assert explain(requests.decode(data), codec.decode(model, key=None))[0].kind == "ok"
else:
    stream = StreamAggregator.empty("small", settings)
    for offset, data in enumerate(log["contributions"]):
        stream.offer(contributions.decode(data), offset)
    assert stream.explained > 500 and stream.records
    stream.state()
assert not {"river", "pandas"} & set(sys.modules)
print(sorted(kernels() - before))
"""


def changing(target: str) -> Iterator[Message]:
    """Yield a stream in which two features are exchanged half-way."""
    for message in messages(target, 2_400):
        block = orjson.loads(message.value)
        for event in block:
            if event["id"] >= 1_200:
                event["x"] |= {"a": event["x"]["b"], "b": event["x"]["a"] + 50.0}
        yield msgspec.structs.replace(message, value=orjson.dumps(block))


class Logged(Reference):
    """The plain loop, and what its stages send each other."""

    def __init__(self, settings: Any) -> None:
        super().__init__(settings)
        self.log: dict[str, list[Any]] = defaultdict(list)

    def _explain(self, block: ExplainRequest, model: Predictor | None) -> list[Contributions]:
        if model is not None:
            identity = {"stream": block.stream, "epoch": block.epoch, "version": block.version}
            self.log["requests"].append((requests.encode(block), codec.encode(model, key=KEY, **identity)))
        answers = super()._explain(block, model)
        self.log["contributions"] += map(contributions.encode, answers)
        return answers


@pytest.mark.program
@pytest.mark.parametrize(
    ("model", "target", "methods"),
    [("tree", "two", "ipfi,isage,ipdp"), ("linear", "number", "ipfi,isage,ipdp"), ("linear", "three", "ipfi")],
)
def test_a_warm_stage_compiles_nothing_more(model: str, target: str, methods: str, tmp_path: Path) -> None:
    assignments = [f"model.name={model}", f"explain.methods={methods}", "topics.events=1"]
    logged = Logged(load(assignments=assignments))
    topics = {topic for message in changing(target) for topic, _ in logged.feed(message)}
    assert "incidents" in topics, "nothing happened"
    file = tmp_path / "log"
    file.write_bytes(pickle.dumps(dict(logged.log)))
    for stage in ("explainer", "aggregator"):
        command = [sys.executable, "-c", PROGRAM, stage, str(file), *assignments]
        found = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        assert found.returncode == 0, found.stderr
        assert found.stdout.strip() == "[]", stage
