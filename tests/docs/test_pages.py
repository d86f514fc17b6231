"""The README and the documents: each block has a rule, and each name in them exists."""

import importlib
import json
import re
from pathlib import Path

import click
import jsonschema
import msgspec
import pytest

import glasstream_topics
from glasstream.app.configuration import ENVIRONMENT, NOT_SETTINGS, load
from glasstream.flow.settings import Settings, flatten
from glasstream.kafka.health.catalogue import ALL
from glasstream.models.river.compile import FAMILIES
from glasstream.models.river.transformers import TRANSFORMERS
from tests.support.docs_commands import (
    ADDRESSES,
    NOT_RUN,
    NUMBERS,
    REFUSED,
    commands,
    expect_foreign,
    expect_names,
    given,
    here,
    options,
)
from tests.support.docs_pages import NAMES, ROOT, Block, page

SCHEMAS = ROOT / "topics" / "glasstream_topics" / "schemas"
EVENTS = json.loads(max(SCHEMAS.glob("events.v*.json")).read_text(encoding="utf-8"))
SETTINGS = flatten(msgspec.to_builtins(Settings()))
SECTIONS = {key.partition(".")[0] for key in SETTINGS if "." in key}
VARIABLES = {ENVIRONMENT + name.replace(".", "_").upper() for name in (*SETTINGS, *NOT_SETTINGS)}
METRICS = {metric.name + ("_total" if metric.kind == "counter" else "") for metric in ALL}
ELSEWHERE = {"--deployment", "--long", "--profile", "--slow"}
"""Options of other programs."""
TOPICS = {topic.name for topic in (*glasstream_topics.ALL, *glasstream_topics.AVRO)}
FILES = {"jsonl", "json", "png", "md"}

every = pytest.mark.parametrize("name", NAMES)


@every
def test_every_block_has_a_rule_and_what_it_says_can_be_read(name: str, tmp_path: Path) -> None:
    for block in page(name).blocks:
        if block.kind == "events":
            for event in block.events:
                jsonschema.validate(event, EVENTS)
        elif block.kind == "settings" or (block.kind == "file" and block.file_name.endswith(".toml")):
            file = tmp_path / "settings.toml"
            file.write_text(block.text, encoding="utf-8")
            assert load(file=file) != Settings(), block.where
        elif block.kind == "program" or (block.kind == "file" and block.file_name.endswith(".py")):
            compile(block.text, block.where, "exec")


def test_a_block_without_a_rule_would_be_found() -> None:
    for text in ("glasstraem run\n", "rm -r results\n", "glasstream doctor\nok\n", "a = 1\n"):
        with pytest.raises(ValueError, match=r"README\.md:7: expected"):
            Block("README.md", 7, text).kind  # noqa: B018


def test_what_is_not_run_stands_somewhere() -> None:
    """Otherwise it needs no excuse any more."""
    every_line = [line for name in NAMES for line in commands(page(name))]
    assert {line.not_run for line in every_line} == {None, *NOT_RUN.values()}
    assert {line.refused for line in every_line} == {None, *REFUSED.values()}


@every
def test_every_command_is_one_that_its_program_takes(name: str) -> None:
    for line in commands(page(name)):
        try:
            if line.arguments:
                given(line.arguments)
            expect_foreign(line.words)
        except (click.ClickException, ValueError) as error:
            raise AssertionError(f"{line.where}: {line.text}: {error}") from error


def test_a_command_that_its_program_does_not_take_would_be_found() -> None:
    for command in (
        "docker compose down",
        "kubectl apply -k ops",
        "pip install glasstream[x]",
        "docker run glasstream",
    ):
        with pytest.raises(ValueError):
            expect_foreign(command.split())
    for words in (["dead", "reply"], ["run", "--row", "7"], ["state", "show", "--stage", "..."]):
        with pytest.raises(ValueError):
            expect_names(words)


@every
def test_what_is_put_in_place_of_values_hides_no_command_and_no_option(name: str) -> None:
    for line in commands(page(name)):
        if line.arguments:
            changed = here(line.arguments, "127.0.0.1:9092")
            added = {"rows"} if "--rows" in changed[len(line.arguments) :] else set()
            command, said = given(line.arguments)
            assert given(changed) == (command, said | added), line.text


def test_what_is_replaced_are_values() -> None:
    for word in (*ADDRESSES, *NUMBERS):
        assert not word.startswith("-") and (":" in word or word.isdigit())


@every
def test_words_in_backticks_name_what_is_there(name: str) -> None:
    known, wrong = options(), []
    for where, span in page(name).spans:
        words = span.split()
        try:
            if words[0] in ("glasstream", "./ops/demo"):
                expect_names(["run", *words[1:]] if words[0] == "./ops/demo" else words[1:])
            elif words[0] in ("dead", "state", "plot", "topics", "replay", "run", "worker", "tail") and words[1:]:
                expect_names(words)
            for word in words if span.startswith("--") else ():
                if word.startswith("--") and word not in known | ELSEWHERE:
                    wrong.append(f"{where}: no command has the option {word}")
        except ValueError as error:
            wrong.append(f"{where}: {error}")
        if re.match(r"(ops|tests|pipeline|topics)/[\w./*-]*$", span) and not [*ROOT.glob(span.rstrip("/"))]:
            wrong.append(f"{where}: there is no {span}")
        if re.match(r"glasstream(_topics)?(\.\w+)+$", span) and not found(span):
            wrong.append(f"{where}: there is no {span}")
        setting = re.match(r"(\w+)\.(\w+)\b(?!\()", span.removeprefix("--set "))
        known_names = SETTINGS.keys() | TOPICS
        if setting and setting[1] in SECTIONS and setting[0] not in known_names and setting[2] not in FILES:
            wrong.append(f"{where}: there is no setting {span}")
    assert wrong == []


def test_columns_of_sql_tables_are_fields_of_records() -> None:
    tables = [block.text for name in NAMES for block in page(name).blocks if "CREATE TABLE" in block.text]
    for text in tables:
        (topic,) = re.findall(r"'topic' = 'glasstream\.([\w.]+)'", text)
        newest = max((ROOT / "tests" / "golden").glob(f"{topic}.v?.json"))
        record = json.loads(newest.read_text(encoding="utf-8"))
        fields = {*record} | {field for one in record["features"].values() for field in one}
        assert {*re.findall(r"(\w+)`? (?:STRING|INT|BIGINT|DOUBLE|MAP|ROW)\b", text)} <= fields
    assert tables


def found(name: str) -> bool:
    """Whether a dotted name is one of a module or in one."""
    module, _, attribute = name.rpartition(".")
    try:
        return hasattr(importlib.import_module(module), attribute) or bool(importlib.import_module(name))
    except ImportError:
        return False


@every
def test_variables_and_metrics_are_there(name: str) -> None:
    text = page(name).text
    variables = {*re.findall(r"\bGLASSTREAM_[A-Z_]*[A-Z]", text)}
    assert {name for name in variables if not name.startswith("GLASSTREAM_KAFKA_")} <= VARIABLES
    assert {*re.findall(r"\bglasstream_[a-z_]*[a-z]", text)} <= METRICS | {"glasstream_topics", "glasstream_lab"}


def test_deviations_from_the_papers_and_the_modules_that_have_them_refer_to_each_other() -> None:
    named = {*re.findall(r"\| `(glasstream[\w.]+)` \|\n", page("deviations.md").text)}
    sources = {path: path.read_text() for path in (ROOT / "pipeline").rglob("*.py")}
    linking = {path for path, text in sources.items() if "ops/docs/deviations.md" in text}
    assert {".".join(path.relative_to(ROOT / "pipeline").with_suffix("").parts) for path in linking} == named
    assert len(named) > 15


def test_what_is_said_to_be_compiled_is() -> None:
    """And every family that is stands there."""
    (section,) = re.findall(r"^## What is compiled\n(.*?)^## ", page("own-model.md").text, re.MULTILINE | re.DOTALL)
    names = {*re.findall(r"`([^`\n]+)`", section)}
    compiled = {kind.__name__ for kind in (*FAMILIES, *TRANSFORMERS)} | {"TransformerUnion"}
    listed = {name for name in names if re.fullmatch(r"([A-Z]\w+)+", name) and not name.isupper()}
    assert listed - {"PYTHONHASHSEED"} == compiled
