"""Results of experiments in a page: where each came from, and that everything else stays."""

import pytest
from click.testing import CliRunner

from glasstream.app.command.cli import cli
from glasstream.base.errors import InputError
from glasstream_lab.papers.comparison import Row, to_markdown
from glasstream_lab.papers.experiment import Request
from glasstream_lab.papers.page import ALL, marks, section, summary, with_sections
from glasstream_lab.papers.registry import EXPERIMENTS, experiment
from glasstream_lab.papers.tasks import PACKAGES, Done, Finished, Origin, run_tasks
from tests.support.docs_pages import page

pytest.importorskip("sklearn", reason="pip install 'glasstream[gbmap]'")

ROWS = [Row("error", [1.0, 1.2], 1.1), Row("score", [2.0, 2.01], 1.0)]
ORIGIN = Origin("2026-11-02", {"python": "3.11.2", "river": "0.26.1"}, 20.0)


def double(task: dict) -> dict:
    return {"x": 2 * task["seed"]}


def quiet(line: str) -> None:
    pass


@pytest.mark.program
def test_a_result_keeps_its_origin_when_a_later_run_continues(tmp_path) -> None:
    file = tmp_path / "results"
    Finished(file).add({"seed": 1}, {"x": 7}, ORIGIN)
    Finished(file).add({"seed": 2}, {"x": 8})
    tasks = [{"seed": seed} for seed in (3, 2, 1)]
    first = run_tasks(tasks, double, 1, file, quiet)
    assert [done.result["x"] for done in first] == [6, 8, 7]
    assert first[1].origin is None and first[2].origin == ORIGIN
    new = first[0].origin
    assert new is not None and new.seconds >= 0.0 and set(new.versions) == {"python", *PACKAGES}
    assert run_tasks(tasks, double, 1, file, quiet) == first


def test_an_origin_that_cannot_be_read_is_refused(tmp_path) -> None:
    file = tmp_path / "results"
    file.write_text('{"asked": {"seed": 1}, "found": {"x": 1}, "origin": {"day": 1}}\n')
    with pytest.raises(InputError, match=rf"{file}:1: expected a line of results"):
        Finished(file)


def test_a_section_says_what_was_run_and_what_was_left_out() -> None:
    drift = experiment("ipfi-drift")
    done = [Done({"data": "stagger fu. 1", "seed": seed}, {}, ORIGIN) for seed in (0, 1)]
    choices = {"order": "before", "shuffle": "yes"}
    text = section(drift, Request(None, 2, quick=True, choices=choices), done, ROWS)
    first, table = text.split("\n\n")
    assert max(map(len, first.splitlines())) <= 120
    assert first.replace("\n", " ") == (
        "1 of 2 numbers of the paper hold; 1 is off by more than 3.5 standard errors. This is the quick form, without "
        f"{drift.quick_omits}. Options: `--order before`, `--shuffle yes`. "
        "2 repetitions on stagger fu. 1, 40 s of CPU time, Python 3.11.2, River 0.26.1, 2 November 2026."
    )
    assert table == to_markdown(ROWS)
    whole = section(drift, Request(None, 2, choices=choices), done, ROWS)
    assert "quick" not in whole and f"2 of {drift.repetitions} repetitions on" in whole.replace("\n", " ")


def test_the_summary_counts_every_number_that_has_a_verdict() -> None:
    rows = [
        *ROWS,
        Row("worse", [3.0, 3.1, 2.9], 2.85, "above"),  # by 2.6 standard errors
        Row("better", [1.0, 1.1], 9.0, "above"),
        Row("exact", [1.0, 1.0], 0.5, "above"),  # by infinitely many
        Row("without", [1.0, 1.2], None),
        Row("alone", [1.0], 1.0),
    ]
    text = f"# Page\n\n{to_markdown(rows)}\nSome | prose.\n"
    expected = (
        "3 of 5 numbers of the papers (60.0 %) are beyond 2 standard errors on the worse side, 2 of them beyond 3.5."
    )
    assert summary(text) == expected
    begin, end = marks(ALL)
    assert summary(with_sections(f"{text}{begin}{end}", {ALL: expected})) == expected


def test_only_what_stands_between_the_marks_of_an_experiment_changes() -> None:
    (begin, end), other = marks("ipdp-law"), "old\n".join(marks("ipfi-laws"))
    text = f"# Results\n\n{other}between\n{begin}old\n{end}after\n"
    once = with_sections(text, {"ipdp-law": "new\n"})
    assert once == f"# Results\n\n{other}between\n{begin}\nnew\n\n{end}after\n"
    assert with_sections(once, {"ipdp-law": "new\n"}) == once
    assert with_sections(text, {}) == text


@pytest.mark.parametrize("damage", ["begin", "end", "twice", "order"])
def test_a_page_without_the_marks_is_refused(damage: str) -> None:
    begin, end = marks("ipdp-law")
    text = {"begin": end, "end": begin, "twice": 2 * (begin + end), "order": end + begin}[damage]
    with pytest.raises(InputError, match="expected the lines <!-- results of ipdp-law --> and"):
        with_sections(text, {"ipdp-law": "new\n"})


def test_the_page_of_the_documentation_has_a_place_for_every_experiment() -> None:
    text = page("papers.md").text
    for name in EXPERIMENTS:
        assert "\n\nnew\n\n" in with_sections(text, {name: "new"})


@pytest.mark.program
def test_the_command_writes_what_a_run_has_stored(tmp_path, monkeypatch) -> None:
    results, file = tmp_path / "results", tmp_path / "page.md"
    marked = "".join("old\n".join(marks(name)) for name in ("ipfi-laws", "ipdp-law"))
    file.write_text(f"# Page\n\n{marked}{''.join(marks(ALL))}")

    def command(*words: str) -> str:
        done = CliRunner().invoke(cli, ["paper", *words, "--results", str(results)], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    with pytest.raises(InputError, match=r"expected a file NAME\.md of an experiment, got none"):
        command("write", str(file))
    command("ipfi-laws", "--quick", "--processes", "1")
    command("write", str(file))
    text = file.read_text()
    assert "16 of 16 numbers of the paper hold. This is the quick form" in text
    assert "0 of 16 numbers of the papers (0.0 %) are beyond 2 standard errors" in text
    assert (results / "ipfi-laws.md").read_text() in text and "old\n".join(marks("ipdp-law")) in text
    with pytest.raises(InputError, match="expected a page"):
        command("write", str(tmp_path / "absent.md"))
