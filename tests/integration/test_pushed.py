"""`glasstream model push`: the model of a running stream is replaced and rolled back, while the learner is killed."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import orjson
import pytest

from glasstream.app.operate.mark import Mark, before
from glasstream.app.operate.models import name_model
from glasstream.app.operate.state import state
from glasstream.base.errors import InputError
from glasstream.flow.learner.pushed import file_of
from glasstream.flow.reference import Reference
from glasstream_topics import events, incidents, models
from tests.support.commands import Commands
from tests.support.deployment import OFTEN, Deployment, assert_same
from tests.support.fixed_models import log
from tests.support.onnx_exports import exported
from tests.support.waiting import wait_for

Deploy = Callable[..., Deployment]
SETTINGS = (
    "topics.events=1", "topics.requests=2", "limits.rows_ahead=800", "publish.every=50", "explain.methods=ipfi,ipdp",
)  # fmt: skip
FILES = ("encoded forest", "encoded network", "encoded line")
"""Two models for the stream, of which onnxruntime evaluates the second, and one for another task."""


def test_a_model_is_replaced_and_rolled_back_whoever_is_killed(
    deploy: Deploy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Only a broker shows the topic of the files, the commands, and what a killed learner reads of both."""
    files = {name: tmp_path / f"{name.replace(' ', '_')}.onnx" for name in FILES}
    for name, file in files.items():
        file.write_bytes(exported(name))
    first, second, other = files.values()
    digests = [models.digest(one.read_bytes()) for one in files.values()]
    deployment = deploy(*SETTINGS, *OFTEN, f"model.name={first}")
    commands = Commands(deployment, monkeypatch)
    values = log(1_500)
    parts = values[:70], values[70:140], values[140:]
    assert "no models were pushed" in commands.well("model", "list").out
    deployment.start_all(explainers=2)
    deployment.send(*parts[0])
    wait_for("row 100 aggregated", lambda: deployment.aggregated("s") >= 100)
    said = commands.run("model", "push", first, "--stream", "nobody").error
    assert isinstance(said, InputError) and "the learner has not seen a stream 'nobody'" in str(said)
    said = commands.run("model", "push", tmp_path, "--stream", "s").error
    assert isinstance(said, InputError) and "cannot read" in str(said)

    planned = commands.well("model", "push", second, "--stream", "s", "--dry-run").out
    assert f"the model {digests[1][:12]} replaces the model of the settings after " in planned
    assert planned.endswith("nothing was written\n") and "no models were pushed" in commands.well("model", "list").out
    said = commands.run("model", "push", "--from", "s", "--stream", "s").error
    assert isinstance(said, InputError) and "--from: expected another stream" in str(said)
    assert f"stored as {digests[0]}" in commands.well("model", "push", first).out
    said = commands.well("model", "push", second, "--stream", "s").out
    assert f"the next event of stream s is predicted by the model {digests[1]}" in said
    deployment.send(*parts[1])
    deployment.kill("learner-1")
    deployment.start("learner", "learner-1")
    said = commands.well("model", "push", "--digest", digests[0][:12], "--stream", "s", "--wait").out
    assert said.endswith("stream s uses the model\n")
    refused = commands.run("model", "push", other, "--stream", "s", "--wait")
    assert refused.code == 1 and "refused the model: expected the task of the stream's model" in refused.err
    (letter,) = commands.well("dead", "show", "--json").records
    assert letter["reason"] == "model_refused" and "expected the task of the stream's model" in letter["detail"]
    deployment.send(*parts[2])
    for name in ("learner-1", "aggregator-1", "explainer-1"):
        deployment.kill(name)
        deployment.start(name.split("-")[0], name)
    said = commands.run("model", "push", "--digest", "00", "--stream", "s").error
    assert isinstance(said, InputError) and digests[0][:12] in str(said)
    deployment.send(events.FLUSH)

    back, on, line = map(events.model_mark, digests)
    whole = [*parts[0], on, *parts[1], back, line, *parts[2], events.FLUSH]
    records = dict(pair for one in files.values() for pair in models.split(one.read_bytes()))
    expected: dict[str, list[bytes]] = {"predictions": [], "importance": [], "incidents": []}
    loop = Reference(deployment.settings, partial(file_of, records=records))
    for topic, record in loop.run((b"s", value) for value in whole):
        expected.setdefault(topic, []).append(record)
    rows = [orjson.loads(value)["row"] for value in expected["importance"]]
    deployment.wait_published("s", rows[-1])
    assert_same(deployment, expected)
    assert deployment.values("incidents") == expected["incidents"]
    told = [incidents.decode(value) for value in expected["incidents"]]
    assert [one.status for one in told if one.verdict == "model_pushed"] == ["open", "normal"] * 2
    versions = {orjson.loads(value)["model_version"] for value in expected["importance"]}
    assert versions == {0, 1, 2}

    listed = commands.well("model", "list", "--json").records
    assert [(one["digest"], one["streams"], one["whole"]) for one in listed] == [
        (digests[0], ["s"], True), (digests[1], [], True), (digests[2], [], True),
    ]  # fmt: skip
    asked = ("--stream", "s", "--seq", 200, "--seq", 600, "--seq", 1_200)
    explained = commands.well("replay", *asked, "--json", "--set", f"model.name={first}").records
    assert [(one["published"]["equal"], one["model_version"]) for one in explained] == [(True, n) for n in range(3)]

    said = commands.well("replay", "--compare", "--set", f"model.name={first}", "--set", "publish.every=50").out
    for topic in ("predictions", "importance", "incidents"):
        count = f"{len(expected[topic]):,}"
        assert f"{topic}: {count} published records, {count} of them computed again" in said

    overtaking: list[Mark] = []

    def overtake() -> None:
        """Push another model while the command waits, and let the learner pass both marks at once."""
        if not overtaking:
            overtaking.append(name_model(deployment.settings, "s", digests[0]))
            deployment.start("learner", "learner-1")
        wait_for("both marks passed", lambda: "learner" not in before(overtaking[0], state(deployment.settings)))

    deployment.kill("learner-1")
    monkeypatch.setattr("glasstream.app.operate.mark.pause", overtake)
    said = commands.well("model", "push", second, "--stream", "s", "--wait").out
    assert overtaking and said.endswith("stream s uses the model\n")
