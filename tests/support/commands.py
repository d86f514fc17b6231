"""Commands of `glasstream` run in the process of a test, against a deployment of its own."""

from dataclasses import dataclass

import orjson
import pytest
from click.testing import CliRunner

from glasstream.app.command.cli import cli
from tests.support.deployment import HMAC_KEY, Deployment


@dataclass
class Said:
    """Output of a command, its exit code, and the error with which it ended."""

    out: str
    err: str
    code: int | None
    error: BaseException | None

    @property
    def records(self) -> list[dict]:
        """Records that `--json` printed."""
        return [orjson.loads(line) for line in self.out.splitlines()]


@dataclass
class Commands:
    """Runs commands with the broker and the prefix of a deployment."""

    deployment: Deployment
    monkeypatch: pytest.MonkeyPatch

    def __post_init__(self) -> None:
        self.monkeypatch.setenv("GLASSTREAM_HMAC_KEY", HMAC_KEY)
        settings = self.deployment.settings
        self.monkeypatch.setenv("GLASSTREAM_TOPICS_EVENTS", str(settings.topics.events))
        self.monkeypatch.setenv("GLASSTREAM_TOPICS_REQUESTS", str(settings.topics.requests))
        self.monkeypatch.setenv("GLASSTREAM_BROKER", settings.broker)
        self.monkeypatch.setenv("GLASSTREAM_PREFIX", settings.prefix)

    def run(self, *arguments: object) -> Said:
        result = CliRunner().invoke(cli, [str(argument) for argument in arguments], standalone_mode=False)
        error = None if isinstance(result.exception, SystemExit) else result.exception
        return Said(result.stdout, result.stderr, result.return_value, error)

    def well(self, *arguments: object) -> Said:
        """Run a command like `run`, and check that it ends with code 0."""
        said = self.run(*arguments)
        if said.error is not None:
            raise said.error
        assert not said.code, said.out + said.err
        return said
