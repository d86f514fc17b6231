"""The page's JavaScript: types, lint, unit tests, and agreement with the messages of the server.

The commands are scripts of `javascript/package.json`. By hand, run `npm ci` in that folder, then `npm run types`,
`npm run lint` or `npm test`; `npm run format` applies the formatter and the safe fixes of the linter.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import orjson
import pytest

import glasstream.app.page
from glasstream.app.page.overview import Rows
from glasstream.app.page.viewer import View, Viewer
from glasstream_topics import effects, novelty
from tests.support.page_records import (
    attribution_record,
    comparison_record,
    drift_record,
    effect_record,
    group_record,
    importance_record,
    incident_record,
    prediction_record,
    segments_record,
)
from tests.support.viewer import put, sent, some, store

STATIC = Path(glasstream.app.page.__file__).parent / "static"
CHECKS = Path(__file__).parent / "javascript"


def run(folder: Path, *command: str | Path) -> None:
    ran = subprocess.run([*map(str, command)], cwd=folder, capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.program
@pytest.mark.parametrize("script", ["types", "lint", "test"])
def test_the_checks_pass(javascript: Path, script: str) -> None:
    run(javascript, "npm", "run", "--silent", script)


@pytest.mark.program
def test_messages_of_a_server_are_of_the_types_and_merge_to_what_it_knows(javascript: Path, tmp_path: Path) -> None:
    """The compiler rejects a message with a missing, an unknown or a wrongly typed field."""
    messages, whole = conversation()
    rows, all_rows = conversation_about_all_streams()
    (tmp_path / "sent.mjs").write_text(
        f"""
import assert from "node:assert/strict";
import {{ merged }} from "{STATIC}/feed.js";

/** @type {{import("{STATIC}/messages.js").Message[]}} */
const messages = {json.dumps(messages)};
/** @type {{import("{STATIC}/messages.js").Known | null}} */
let known = null;
for (const message of messages) known = merged(known, message);
assert.deepEqual(known, {json.dumps(whole)});

/** @type {{import("{STATIC}/messages.js").Message[]}} */
const rows = {json.dumps(rows)};
known = null;
for (const message of rows) known = merged(known, message);
assert.deepEqual(known?.rows, {json.dumps(all_rows["rows"])});
""",
        encoding="utf-8",
    )
    options = {"typeRoots": [str(javascript / "node_modules" / "@types")]}
    project = {"extends": str(javascript / "tsconfig.json"), "compilerOptions": options, "include": ["sent.mjs"]}
    (tmp_path / "tsconfig.json").write_text(json.dumps(project), encoding="utf-8")
    run(tmp_path, javascript / "node_modules" / ".bin" / "tsc")
    run(tmp_path, "node", "sent.mjs")


def conversation() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Messages to one viewer, with and without each optional part, and the state of the server at the end."""
    known = store()
    known.reading.done, known.reading.total = False, 10
    viewer = Viewer(Rows(known), View(stream="s", effect="kind", event=420))
    messages = [sent(viewer)]
    put(known, "predictions", prediction_record(0, None))
    messages.append(sent(viewer))
    known.reading.done = True
    known.reject("not_json")
    known.trouble = "no broker answers"
    some(known, range(1, 100))
    for row in (99, 199):
        put(known, "effects", categories(row))
    messages.append(sent(viewer))
    put(known, "drift", drift_record(150, None, 0.1, 0.5))
    put(known, "incidents", incident_record(160, 1000))
    messages.append(sent(viewer))
    put(known, "incidents", incident_record(170, 1000, status="over"))
    for start in range(100, 400, 50):
        some(known, range(start, start + 50))
        put(known, "effects", categories(start + 200))
        messages.append(sent(viewer))
    put(known, "importance", importance_record(409, {"a": 0.5, "b": 0.1, "new": 0.2}, method="isage"))
    put(known, "effects", effect_record(409, "b", [0.5, 0.25]))
    put(known, "novelty", novelty_alarm(410))
    put(known, "groups", group_record(300, alarms=["accuracy of sex = 'f' fell"]))
    put(known, "comparisons", comparison_record(300, "other"))
    put(known, "segments", segments_record(4_999, "a >= 15"))
    messages.append(sent(viewer))
    for seq, output in ((399, "yes"), (420, None)):
        put(known, "attributions", attribution_record(seq, {"a": 0.5, "b": -0.25}, output=output))
        messages.append(sent(viewer))
    said = [one for one in messages if one is not None]
    assert len(said) == len(messages) and [one["type"] for one in said].count("delta") > 5
    whole = orjson.loads(viewer.whole())
    return said, whole


def conversation_about_all_streams() -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Messages to a viewer of several streams, with and without each part of a row, and the state at the end."""
    known = store()
    viewer = Viewer(Rows(known), View())
    put(known, "novelty", novelty_alarm(0))
    put(known, "predictions", prediction_record(0, None, stream="other"))
    messages = [sent(viewer)]
    put(known, "predictions", prediction_record(0, 1.0))
    some(known, range(1, 60))
    messages.append(sent(viewer, 10.0))
    put(known, "incidents", incident_record(60, 7, stream="third"))
    put(known, "predictions", prediction_record(1, 1.0, prediction=1.5, target=2.0, stream="third"))
    put(known, "predictions", prediction_record(2, 1.0, prediction=1.5, target=2.0, stream="third"))
    messages.append(sent(viewer, 20.0))
    said = [one for one in messages if one is not None]
    assert [one["type"] for one in said] == ["state", "rows", "rows"]
    return said, orjson.loads(viewer.whole())


def categories(row: int) -> bytes:
    return effects.encode(
        epoch=0,
        stream="s",
        row=row,
        seq=row,
        feature="kind",
        output=None,
        kind="categorical",
        grid=["red", "blue", True],
        curve=[0.1, 0.2, row / 1e4],
        margin=[None, 0.25, 0.5],
        level=0.95,
        importance=10.0,
        ice=None,
        n=row + 1,
        coverage=1.0,
        model_version=row,
    )


def novelty_alarm(seq: int) -> bytes:
    return novelty.encode(
        epoch=0,
        stream="s",
        seq=seq,
        id=str(seq),
        indicator=3.0,
        baseline=1.0,
        threshold=2.0,
        flagged=True,
        map_version=0,
        alarm=novelty.Alarm(before=0.01, after=0.2, width=300),
    )


@pytest.mark.program
@pytest.mark.parametrize("path", ["dist/uPlot.esm.js", "dist/uPlot.min.css", "LICENSE"])
def test_the_vendored_chart_library_is_the_one_that_the_types_are_of(javascript: Path, path: str) -> None:
    package = javascript / "node_modules" / "uplot" / path
    assert (STATIC / "vendor" / "uplot" / package.name).read_bytes() == package.read_bytes()


def test_lines_hold_at_most_120_characters() -> None:
    written = [*STATIC.glob("*.*s"), *STATIC.glob("*.html"), *CHECKS.glob("*.js")]
    lines = [
        f"{path.name}:{number}"
        for path in written
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if len(line) > 120
    ]
    assert len(written) > 15 and lines == []


def test_the_lock_file_names_exact_packages_and_no_registry() -> None:
    """npm takes the packages from the registry it is configured for, and checks them against the hashes in the file."""
    packages = json.loads((CHECKS / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    wanted = packages.pop("")["devDependencies"]
    assert {name: packages[f"node_modules/{name}"]["version"] for name in wanted} == wanted
    assert all("resolved" not in one and one["integrity"].startswith("sha512-") for one in packages.values())
