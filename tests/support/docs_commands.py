"""The commands of the documents: what of them stands for something else here, what is run, what cannot be."""

import argparse
import re
import shlex
import subprocess
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import chain

import click
import yaml

from glasstream.app.command.cli import cli
from tests.support.command_line import parsed
from tests.support.docs_pages import ROOT, Block, Page
from tests.support.manifests import HELM, render

ADDRESSES = ("kafka:9092", "kafka:9093", "localhost:9094", "HOST:PORT")
"""Values that stand for a Kafka."""
REGISTRY = "http://localhost:8081"
"""Value that stands for a schema registry."""
NUMBERS = {"48211": "411", "48212": "412"}
"""Values that stand for an event of a stream that is long enough; the one of the tests has 500."""
ROWS = "600"
"""Number of rows of the bundled stream, if a command does not name one."""

NOT_RUN: Mapping[tuple[str, ...], str] = {
    ("python3", "-m", "venv"): "ops/environment.sh does so before every run of the tests",
    (".", "venv/bin/activate"): "a shell's own affair",
    ("pip", "install"): "needs a package index; ops/environment.sh and tests/ops/test_image.py install the project",
    ("docker", "compose"): "needs a Docker engine; tests/ops/test_containers.py checks what it would read",
    ("helm",): "needs a cluster; tests/ops/test_helm.py renders the chart",
    ("kubectl",): "needs a cluster; tests/ops/test_kubernetes.py checks what it would read",
    (
        "python",
        "-m",
        "glasstream.app.reference",
    ): "writes files into the checkout; tests/topics/test_reference.py compares",
    ("python", "-m", "tests.support.gallery"): "writes files into the checkout; tests/docs/test_gallery.py compares",
    ("python", "-m", "tests.support.manifests"): "writes files into the checkout; tests/ops/test_helm.py compares",
    ("python", "-m", "hatchling"): "tests/ops/test_release.py builds both files",
    (
        "python",
        "tests/support/coverage.py",
    ): "takes minutes; tests/explain/estimators/test_coverage.py makes fewer runs",
    ("python", "tests/benchmarks/ipfi_drift.py"): "needs ixai, and takes minutes for each stream",
    ("python", "tests/chaos/soak.py"): "takes hours; tests/integration/test_soak.py runs short ones",
    ("python", "tests/chaos/kafka_versions.py"): "fetches six Kafkas; tests/integration runs on one",
    (
        "glasstream",
        "paper",
    ): "takes hours on data sets that are not here; tests/lab/command/test_paper.py runs a small one",
    ("glasstream", "model"): "needs a stream of a trained model; tests/integration/test_pushed.py replaces one",
    ("./ops/test",): "these tests are what it runs",
    (
        "glasstream",
        "intake",
        "try",
        "--file",
    ): "needs a file of messages; tests/app/operate/test_intake_try.py reads one",
    ("glasstream", "health"): "asks a port of its own container; tests/app/command/test_health.py asks one of its own",
}
"""Beginnings of commands that no test machine can run, or none in a minute. They are looked at all the same."""

REFUSED: Mapping[tuple[str, ...], str] = {
    ("glasstream", "topics", "acls", "--apply"): "It needs an authorizer",
    ("glasstream", "compare", "loans"): "expected a stream with predictions",
    ("glasstream", "explain", "--id"): "--id: expected ids of events",
    ("glasstream", "explain", "--flagged"): "none of them has a record",
    ("glasstream", "explain"): "the stages write them with explain.methods=attributions",
}
"""Words of commands that the Kafka of the tests refuses, and what they must say then: that they were understood."""

_PLACEHOLDER = re.compile(r"^[A-Z][A-Z_]*(\.[A-Z]+)?(:[A-Z]+)?$|\.\.\.|…|<.*>")


@dataclass(frozen=True)
class Line:
    """A line of shell."""

    where: str
    text: str
    prints: str | None = None

    @property
    def background(self) -> bool:
        return self.text.partition("#")[0].rstrip().endswith("&")

    @property
    def words(self) -> list[str]:
        words = shlex.split(self.text, comments=True)
        return words[:-1] if words[-1] == "&" else words

    @property
    def arguments(self) -> list[str]:
        """Arguments of `glasstream`; empty for another program."""
        program, *rest = self.words
        return {"glasstream": rest, "./ops/demo": ["run", *rest]}.get(program, [])

    @property
    def not_run(self) -> str | None:
        """Why it is not run."""
        words = self.words
        return next((why for start, why in NOT_RUN.items() if tuple(words[: len(start)]) == start), None)

    @property
    def refused(self) -> str | None:
        words = self.words
        return next((said for some, said in REFUSED.items() if set(some) <= set(words)), None)


def lines(block: Block) -> list[Line]:
    """Return the lines of a block of shell or of a terminal."""
    return [Line(block.where, text, prints) for text, prints in block.commands]


def whole(where: str, span: str) -> Line | None:
    """Return a text in backticks as a line to run; None if it only names a command."""
    line = Line(where, span)
    if not re.match(r"(glasstream|\./ops/demo|python|docker compose|helm|kubectl) \S", span):
        return None
    return None if any(_PLACEHOLDER.search(word) for word in line.words if word not in ADDRESSES) else line


def inline(page: Page) -> list[Line]:
    """Return the texts in backticks that can be run."""
    return [line for where, span in page.spans if (line := whole(where, span)) is not None]


def commands(page: Page) -> list[Line]:
    """All of a page that can be run: blocks first."""
    return [*chain.from_iterable(map(lines, page.blocks)), *inline(page)]


def here(arguments: list[str], address: str) -> list[str]:
    """Arguments with the values that they have here, and as many rows as a test has time for."""
    changed = [address if word in ADDRESSES else NUMBERS.get(word, word) for word in arguments]
    if changed[0] == "run" and not {"--csv", "--rows"} & {*changed}:
        changed += ["--rows", ROWS]
    return changed


def given(arguments: list[str]) -> tuple[str | None, set[str]]:
    """The command and the options that arguments name; click raises where it would refuse them."""
    context = parsed(arguments)
    typed = click.core.ParameterSource.COMMANDLINE
    names = {name for name in context.params if context.get_parameter_source(name) is typed}
    return context.command_path, names


def expect_names(words: list[str]) -> None:
    """Every command and option among some words is there, whatever the values are.

    Raises
    ------
    ValueError
        One is not.
    """
    command: click.Command = cli
    rest = list(words)
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        name = re.split(r"\|", rest.pop(0))[0]
        inner = command.get_command(click.Context(command), name)
        if inner is None:
            raise ValueError(f"{' '.join(words)}: there is no command {name!r} of {command.name!r}")
        command = inner
    there = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    for word in rest:
        if word.startswith("--") and word.partition("=")[0] not in there:
            raise ValueError(f"{' '.join(words)}: {command.name!r} has no option {word!r}")


def options() -> set[str]:
    """Every option of every command."""

    def of(command: click.Command) -> set[str]:
        context = click.Context(command)
        names = command.list_commands(context) if isinstance(command, click.Group) else []
        inner = [found for name in names if (found := command.get_command(context, name))]  # type: ignore[attr-defined]
        own = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
        return own.union(*map(of, inner))

    return of(cli) | {"--help"}


class _Refusing(argparse.ArgumentParser):
    def error(self, message: str) -> None:  # type: ignore[override]
        raise ValueError(message)


def expect_foreign(words: list[str]) -> None:
    """Check a command that is not run: the files that it would read exist, and so do its options.

    Raises
    ------
    ValueError
        Not so, or Helm refuses the chart with these values.
    """
    parser = _Refusing(add_help=False)
    if words[:2] == ["docker", "compose"]:
        compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
        services = compose["services"]
        parser.add_argument(
            "--profile", choices={name for one in services.values() for name in one.get("profiles", [])}
        )
        parser.add_argument("command", choices=["up"])
        parser.add_argument("--build", action="store_true")
        parser.add_argument("--scale", choices=[f"{name}={number}" for name in services for number in range(1, 10)])
        parser.parse_args(words[2:])
    elif words[:2] == ["kubectl", "apply"]:
        parser.add_argument("-k", required=True, choices=["ops/kubernetes"])
        parser.parse_args(words[2:])
    elif words[:4] == ["kubectl", "create", "secret", "generic"]:
        parser.add_argument("name")
        parser.add_argument("--from-literal", required=True)
        asked = parser.parse_args(words[4:])
        manifests = [one.read_text(encoding="utf-8") for one in (ROOT / "ops" / "kubernetes").glob("*.yaml")]
        key = asked.from_literal.partition("=")[0]
        if not any(f'secretName: "{asked.name}"' in manifest and f"/{key}" in manifest for manifest in manifests):
            raise ValueError(f"no manifest reads {key} of the secret {asked.name}")
    elif words[:2] == ["pip", "install"]:
        project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        parser.add_argument("what", nargs="+")
        for what in parser.parse_args(words[2:]).what:
            found = re.fullmatch(r"(?:glasstream|\.)(?:\[([\w,]+)\])?", what)
            extras = {*(found[1] or "all").split(",")} if found else set()
            if (
                not (extras and extras <= {*project["optional-dependencies"]})
                and not (ROOT / what / "pyproject.toml").exists()
            ):
                raise ValueError(f"no such extra or project: {words}")
    elif words[0] == "helm" and words[1] in ("install", "upgrade") and words[3:4] == ["ops/helm"]:
        values = [word for word in words[4:] if word != "--reset-then-reuse-values"]
        if HELM:
            try:
                render(*values)
            except subprocess.CalledProcessError as error:
                raise ValueError(error.stderr) from error
    elif words[0] in ("docker", "helm", "kubectl", "pip"):
        raise ValueError(f"expected one of the commands that are known here, got {' '.join(words)}")
