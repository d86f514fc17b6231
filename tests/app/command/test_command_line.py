"""The command as a process: what ends it before any work, and how an interrupt ends it."""

import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from glasstream.app.command.cli import cli
from glasstream.app.command.expect import expect_plan
from glasstream.app.configuration import load
from glasstream.app.operate.topics import show
from glasstream.base.errors import SettingsError
from glasstream_topics import ALL

ROOT = Path(__file__).resolve().parents[3]
HEAVY = ("river", "numba", "faust", "rich", "confluent_kafka")


def expect(*, broker: str = "none", explainers: int = 1, out: Path | None = None, data: Path | None = None) -> None:
    expect_plan(load(assignments=[f"broker={broker}"]), explainers, out, data)


def test_help_loads_nothing_heavy() -> None:
    script = f"import sys, glasstream.app.command.cli; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_check_of_a_bundled_model_loads_no_model() -> None:
    """`run` makes it before its first line."""
    script = f"""
        import sys
        from glasstream.app.configuration import load
        from glasstream.events.admission import Task
        from glasstream.flow.learner.expect_model import expect_model
        for name in ("forest", "tree", "linear"):
            expect_model(load(assignments=[f"model.name={{name}}"]), Task.CLASSIFICATION)
        print([name for name in {HEAVY} if name in sys.modules])
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "['numba']\n"  # of the settings of drift detectors, which compile nothing


def test_python_runs_the_package_as_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "glasstream", "--help"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "Explain models while they learn" in done.stdout


def walk(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    """Yield a command and all commands below it, with their names."""
    yield path, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            yield from walk(inner, (*path, name))


def test_the_lists_of_commands_cut_no_summary() -> None:
    for path, command in walk(cli):
        if isinstance(command, click.Group):
            output = CliRunner().invoke(cli, [*path, "--help"], terminal_width=80).output
            lines = output.partition("Commands:\n")[2].splitlines()
            assert len(lines) == len(command.list_commands(click.Context(command)))
            assert not [line for line in lines if not line.endswith(".") or line.endswith(("...", "et al."))], path


def test_every_command_and_every_option_has_a_help_text() -> None:
    for path, command in walk(cli):
        assert command.help, path
        for parameter in command.params:
            if isinstance(parameter, click.Option):
                assert re.match(r"[A-Z`-].*[.\])]$|(topics|log): ", parameter.help or "", re.DOTALL), (
                    path,
                    parameter.name,
                )


@pytest.mark.program
def test_an_interrupt_while_modules_load_ends_it_without_a_word() -> None:
    """The load of a heavy module, as far as the command can tell: it says so, and then takes long."""
    script = textwrap.dedent(
        """
        import sys, time
        from glasstream.app.command.main import main

        class Slow:
            def find_spec(self, name, path, target=None):
                if name == "faust":
                    print("loading", flush=True)
                    time.sleep(60)

        sys.meta_path.insert(0, Slow())
        sys.argv = ["glasstream", "run"]
        main()
        """
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "loading\n"
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=50)  # less than the load takes
    assert (process.returncode, said) == (130, "")


def test_a_page_without_topics() -> None:
    with pytest.raises(
        SettingsError, match="--page: expected a broker whose topics the page can read, got --broker none"
    ):
        expect_plan(load(assignments=["broker=none"]), 1, None, None, page=True)


def test_a_page_that_others_reach_needs_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = load(assignments=["page.host=0.0.0.0"])
    with pytest.raises(SettingsError, match="set GLASSTREAM_PAGE_TOKEN"):
        expect_plan(settings, 1, None, None, page=True)
    monkeypatch.setenv("GLASSTREAM_PAGE_TOKEN", "0123456789abcdef")
    expect_plan(settings, 1, None, None, page=True)


def test_an_out_that_is_a_file(tmp_path: Path) -> None:
    file = tmp_path / "results"
    file.write_text("")
    for out in (file, file / "below"):
        with pytest.raises(SettingsError, match=f"--out {out}: expected a directory, got the file"):
            expect(out=out)


def test_an_out_that_can_be_made_is_not_made_yet(tmp_path: Path) -> None:
    expect(out=tmp_path / "a" / "b")
    assert list(tmp_path.iterdir()) == []


def test_an_out_without_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: path != tmp_path)  # root may write everywhere
    with pytest.raises(SettingsError, match="cannot be written: no permission in"):
        expect(out=tmp_path / "results")


@pytest.mark.parametrize("broker", ["embedded", "none"])
def test_several_explainers_need_a_kafka(broker: str) -> None:
    with pytest.raises(SettingsError, match=r"--explainers: .*, got 2; use --broker local"):
        expect(broker=broker, explainers=2)
    expect(broker="local", explainers=2)


def test_all_that_is_wrong_with_a_plan_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as caught:
        expect(broker="nowhere", data=tmp_path, out=Path(__file__))
    assert [line.split(":")[0] for line in caught.value.findings] == ["broker", "--data", f"--out {__file__}"]


def test_options_are_checked_before_anything_is_shown() -> None:
    for arguments in (["--explainers", "2"], ["--out", str(Path(__file__))], ["--explainers", "0"]):
        result = CliRunner().invoke(cli, ["run", "--broker", "embedded", *arguments])
        assert result.exit_code != 0
        assert "agrawal" not in result.output


def test_the_help_of_broker_says_what_the_command_can_use() -> None:
    def of_broker(*command: str) -> str:
        text = CliRunner().invoke(cli, [*command, "--help"], terminal_width=200).output
        found = re.search(r"--broker TEXT +(.*)", text)
        return found[1] if found else ""

    assert "embedded" in of_broker("run") and "none" in of_broker("run")
    for command in (("worker",), ("produce",), ("tail",), ("topics", "create"), ("topics", "verify")):
        assert of_broker(*command) == "Addresses of a running Kafka, as HOST:PORT,..."
    for command in (("dead", "list"), ("incidents",), ("reset",), ("state", "show"), ("replay",)):
        assert of_broker(*command).endswith("or `local` together with --data.")


def test_topics_show_leaves_nothing_out() -> None:
    lines = show(load())
    for topic in ALL:
        place = lines.index(f"glasstream.{topic.name}" + ("" if topic.public else " (internal)"))
        assert lines[place + 1].endswith(topic.holds)
        for name, value in topic.config.items():
            assert any(line.endswith(f" {name}={value}") for line in lines[place:])


@pytest.mark.parametrize(
    ("options", "what"),
    [
        (("--broker", "local"), "--broker local needs --data, the folder that `run --broker local --data` wrote"),
        (("--broker", "local", "--data", "/no/such"), "wrote; /no/such is not a folder"),
        (
            ("--broker", "h:1", "--data", "/tmp"),
            "--data: it works only with --broker local, got --broker h:1",
        ),
        (("--broker", "embedded"), "broker: expected HOST:PORT,... of a running Kafka"),
    ],
)
def test_tools_of_a_kept_run_refuse_what_they_cannot_reach(options: tuple[str, ...], what: str) -> None:
    for command in (
        ("replay", "--stream", "s", "--seq", "1"),
        ("state", "show"),
        ("incidents",),
        ("dead", "list"),
        ("dead", "show"),
        ("dead", "replay"),
    ):
        result = CliRunner().invoke(cli, [*command, *options], standalone_mode=False)
        assert isinstance(result.exception, SettingsError) and what in str(result.exception)


def test_a_run_does_not_join_the_deployment_of_the_environment_by_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """With other settings, it would end the deployment's workers; and its events would be learned there."""
    monkeypatch.setenv("GLASSTREAM_BROKER", "localhost:1")
    monkeypatch.setenv("GLASSTREAM_PREFIX", "prod.")
    refused = CliRunner().invoke(cli, ["run", "--rows", "10"])
    assert refused.exit_code and "prefix prod. at localhost:1" in str(refused.exception or refused.output)
    for given in (["--broker", "none"], ["--broker", "embedded", "--explainers", "2"], ["--prefix", "prod."]):
        ran = CliRunner().invoke(cli, ["run", "--rows", "10", *given])
        assert "would join" not in str(ran.exception or "") + ran.output
