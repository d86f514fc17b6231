"""Every command of the README and the documents is run, every example and program, in the order in which they stand."""

import ast
import doctest
import io
import os
import re
import runpy
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from glasstream.app.command.cli import execute
from glasstream.app.command.exit_codes import INTERRUPTED
from glasstream.app.configuration import load
from tests.support import docs_supposed as supposed
from tests.support.docs_commands import ADDRESSES, REGISTRY, Line, commands, here, inline, lines
from tests.support.docs_pages import NAMES, ROOT, Block, Page, page
from tests.support.fork_server import Forked, fork_server
from tests.support.schema_registry import Registry, registry
from tests.support.waiting import DEADLINE, wait_for

OF_FILES = {"gbmap", "paper", "plot", "run"}
"""Commands that need no Kafka unless they name one."""
AT_ONCE = {"compare", "intake", "page", "produce", "topics", "worker"}
"""Commands that need a Kafka, and need not wait until the loans are explained."""
WITH_A_DEPLOYMENT = ["README.md", "consuming.md", "containers.md", "labels.md", "page.md", "runbook.md"]
WITH_A_DEPLOYMENT += ["security.md", "watching.md"]
"""Pages that speak of the deployment that the README begins."""
OF_THE_README = [line.words for name in WITH_A_DEPLOYMENT for line in commands(page(name))]
"""Commands of these pages, which are not run again where another page mentions them."""
ENDLESS = {"page": "page: http", "tail": "{", "worker": "health and metrics on"}
"""Commands that run until they are stopped, and what each prints when it works."""
SUDO = """sudo() {
    local words=()
    while (($#)); do
        case "$1" in -o | -g) shift 2 ;; *) words+=("$1") && shift ;; esac
    done
    "${words[@]}"
}"""
"""Stands in for `sudo install`: files belong to whoever runs the tests, who need not be able to give them away."""
_AS_SHOWN = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
_LOOK_SECONDS = 0.1


def needs_kafka(one: Page) -> bool:
    """Whether a page has a command or a program that needs one."""
    return any(block.kind == "program" for block in one.blocks) or any(
        line.arguments and not line.not_run and (line.arguments[0] not in OF_FILES or "--broker" in line.words)
        for line in commands(one)
    )


@dataclass
class Walk:
    """Goes through pages, in a folder each, and does what stands there.

    Attributes
    ----------
    folder
        Where the folders of the pages are made.
    kafka
        Address of the one that stands for all that the pages name.
    schemas
        The schema registry that stands for the one that pages name.
    prefix
        Begins the topics of a deployment.
    variables
        What pages have exported.
    """

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    kafka: str = ""
    prefix: str = ""
    schemas: Registry = field(default_factory=Registry)
    variables: dict[str, str] = field(default_factory=dict)
    done: set[tuple[str, ...]] = field(default_factory=set)
    workers: dict[str, Forked] = field(default_factory=dict)
    waited: bool = False
    sent: bool = False

    def through(self, one: Page) -> None:
        """Blocks first, then the commands in backticks."""
        place = self.folder / one.path.stem
        place.mkdir()
        supposed.files(place)
        self.monkeypatch.chdir(place)
        self.monkeypatch.syspath_prepend(str(place))
        names: dict[str, Any] = {}
        for number, block in enumerate(one.blocks):
            if block.kind == "examples":
                self.examples(block, names)
            elif block.kind == "program":
                self.program(block, number)
            elif block.kind == "file":
                text = block.text
                for address in ADDRESSES:
                    text = text.replace(f'"{address}"', f'"{self.kafka}"')
                (place / block.file_name).write_text(text, encoding="utf-8")
            for line in lines(block):
                self.run(line)
        for line in inline(one):
            if one.name in WITH_A_DEPLOYMENT or line.words not in OF_THE_README:
                self.run(line)

    def examples(self, block: Block, names: dict[str, Any]) -> None:
        said = io.StringIO()
        example = doctest.DocTestParser().get_doctest(block.text, names, block.where, block.page, block.line)
        result = doctest.DocTestRunner(verbose=False).run(example, out=said.write, clear_globs=False)
        names.update(example.globs)
        assert result.failed == 0 and result.attempted > 0, said.getvalue()

    def program(self, block: Block, number: int) -> None:
        """With other constants and nothing else; it must print something, unless it only sends."""
        self.wait_explained()
        values = {**dict.fromkeys(ADDRESSES, self.kafka), REGISTRY: self.schemas.address, "glasstream.": self.prefix}
        topics = ("events", "importance", "importance.avro")
        values |= {f"glasstream.{topic}": f"{self.prefix}{topic}" for topic in topics} | {60: 15}
        values |= {"dashboard": f"{self.prefix}dashboard-{number}"}
        tree = ast.parse(block.text)
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant):
                node.value = values.get(node.value, node.value)
        said = io.StringIO()
        with redirect_stdout(said):
            exec(compile(tree, block.where, "exec"), {})
        assert said.getvalue() or "print(" not in block.text, f"{block.where}: nothing was read"

    def run(self, line: Line) -> None:
        if line.not_run:
            return
        program = line.words[0]
        if line.arguments:
            printed = self.glasstream(line)
        elif program == "python":
            printed = self.python(line)
        else:
            printed = self.shell(line)
        if line.prints is not None:
            assert doctest.OutputChecker().check_output(line.prints, printed, _AS_SHOWN), (
                f"{line.where}: {line.text}\nexpected\n{line.prints}\ngot\n{printed}"
            )

    def shell(self, line: Line) -> str:
        """By bash; what it exports is kept, with the values of here."""
        script = f"set -eu\n{SUDO}\n{line.text}\nenv -0 >&2"
        environment = {**os.environ, **self.variables}
        done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, check=False, timeout=60)
        assert done.returncode == 0, f"{line.where}: {line.text}: {done.stdout!r} {done.stderr!r}"
        for variable in done.stderr.decode().split("\0"):
            name, _, value = variable.partition("=")
            if name.startswith("GLASSTREAM_") and environment.get(name) != value:
                self.variables[name] = (
                    self.kafka if value in ADDRESSES else value.replace(REGISTRY, self.schemas.address)
                )
                self.done.discard(("topics", "create"))
        return done.stdout.decode()

    def python(self, line: Line) -> str:
        """In this process: a file of the page, or one of the project."""
        script, *arguments = line.words[1:]
        said, path = io.StringIO(), [*sys.path]
        self.monkeypatch.setattr(sys, "argv", [script, *arguments])
        self.monkeypatch.setattr(sys, "path", ["", *path])
        with redirect_stdout(said):
            runpy.run_path(script if Path(script).exists() else str(ROOT / script), run_name="__main__")
        self.monkeypatch.setattr(sys, "path", path)
        return said.getvalue()

    def glasstream(self, line: Line) -> str:
        arguments = here(line.arguments, self.kafka)
        if line.prints is None and "--out" not in arguments:
            if tuple(arguments) in self.done:
                return ""
            self.done.add(tuple(arguments))
        if arguments[0] not in OF_FILES | AT_ONCE:
            self.wait_explained()
        if arguments[0] in ENDLESS and "--max" not in arguments:
            return self.beside(line, arguments)
        printed = self.in_this_process(line, arguments)
        if arguments[:2] == ["topics", "create"] and "--prefix" not in arguments and not self.sent:
            self.sent = True
            supposed.loans(load(environment=self.environment(), file=self.config()))
        return printed

    def beside(self, line: Line, arguments: list[str]) -> str:
        """In a process, until it is at work; a worker goes on."""
        if arguments[0] == "worker":
            self.end_worker(arguments)
        log = self.new_log()
        process = fork_server().start(arguments, self.environment(), log, Path.cwd())
        sign = ENDLESS[arguments[0]]
        wait_for(f"{line.text}: {sign}", lambda: ended(process, _LOOK_SECONDS) or sign in text_of(log))
        assert process.poll() is None, f"{line.where}: {line.text}: {text_of(log)}"
        if arguments[0] == "worker":
            self.workers[key_of(arguments)] = process
        else:
            process.send_signal(signal.SIGINT)
            assert process.wait(DEADLINE) in (0, INTERRUPTED), f"{line.where}: {line.text}: {text_of(log)}"
        return text_of(log)

    def in_this_process(self, line: Line, arguments: list[str]) -> str:
        """To its end; what `run` starts comes from the fork server. Without a broker and a page it is a plain loop."""
        log, folder = self.new_log(), Path.cwd()

        def start(arguments: Sequence[str], environment: Mapping[str, str]) -> Forked:
            return fork_server().start(arguments, environment, log, folder)

        variables = self.environment()
        if arguments[0] == "run":
            variables = {"COLUMNS": "80"}
            if not {"--page", "--broker"} & {*arguments}:
                variables["GLASSTREAM_BROKER"] = "none"
        person = CliRunner(env=variables).isolation("y\n")  # whoever is asked says yes
        with self.monkeypatch.context() as patch, person as (_, _, output):
            patch.setattr("glasstream.app.runner.children.start_process", start)
            patch.setattr(sys, "argv", ["glasstream", *arguments])
            code = execute()
            said = output.getvalue().decode()
        told = f"{line.where}: {line.text}: exit code {code}: {said}{text_of(log)}"
        if line.refused:
            assert code != 0 and line.refused in said, told
        else:
            assert code == 0, told
        return said

    def new_log(self) -> Path:
        return self.folder / f"{len([*self.folder.iterdir()])}.log"

    def environment(self) -> dict[str, str]:
        """Return the environment in which commands address the deployment."""
        own = {"GLASSTREAM_PREFIX": self.prefix, "GLASSTREAM_WORKER_SESSION_SECONDS": "6", "COLUMNS": "80"}
        return {**os.environ, **self.variables, **own, "NUMBA_NUM_THREADS": "1"}

    def config(self) -> Path | None:
        file = self.variables.get("GLASSTREAM_CONFIG")
        return None if file is None else Path(file)

    def wait_explained(self) -> None:
        if not self.waited:
            supposed.wait_explained(load(environment=self.environment(), file=self.config()), DEADLINE)
            self.waited = True

    def end_worker(self, arguments: list[str]) -> None:
        """A worker that is started again was ended before."""
        before = self.workers.pop(key_of(arguments), None)
        if before is not None:
            before.send_signal(signal.SIGTERM)
            assert before.wait(DEADLINE) == 0, arguments

    def close(self) -> None:
        for process in self.workers.values():
            process.kill()
            process.wait()


def ended(process: Forked, seconds: float) -> bool:
    """Whether it ends within some seconds."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def text_of(log: Path) -> str:
    """Return the output so far; empty if there is none yet."""
    return log.read_text(encoding="utf-8") if log.exists() else ""


def key_of(arguments: list[str]) -> str:
    """The stage and the name of a worker."""
    return re.sub(r" --new-epoch \d+", "", " ".join(arguments))


@contextmanager
def walk(folder: Path, monkeypatch: pytest.MonkeyPatch, kafka: str = "", prefix: str = "") -> Iterator[Walk]:
    for variable in [name for name in os.environ if name.startswith("GLASSTREAM_")]:
        monkeypatch.delenv(variable)
    with registry() as schemas:
        one = Walk(folder, monkeypatch, kafka, prefix, schemas)
        try:
            yield one
            assert [worker for worker, process in one.workers.items() if process.poll() is not None] == []
        finally:
            one.close()


ALONE = [name for name in NAMES if name not in WITH_A_DEPLOYMENT and not needs_kafka(page(name))]


@pytest.mark.parametrize("name", ALONE)
def test_a_page_that_needs_no_kafka(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with walk(tmp_path, monkeypatch) as one:
        one.through(page(name))


def test_the_deployment_of_the_readme(kafka: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only a broker takes the commands of an operator: topics with their configuration, several workers, groups."""
    with walk(tmp_path, monkeypatch, kafka, prefix) as one:
        for name in WITH_A_DEPLOYMENT:
            one.through(page(name))


@pytest.mark.parametrize("name", [name for name in NAMES if name not in (*WITH_A_DEPLOYMENT, *ALONE)])
def test_a_page_with_a_deployment_of_its_own(
    name: str, kafka: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only a broker creates the topics that the page asks for, and keeps them from one command to the next."""
    with walk(tmp_path, monkeypatch, kafka, prefix) as one:
        one.through(page(name))
