"""A run shows every notice of its source and the results of what could be read, however the source ends."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from glasstream.app.configuration import load
from glasstream.app.runner.run import Plan, run
from glasstream.base.errors import InputError
from glasstream.events.mapping.fields import Kind
from glasstream.events.sources.csv_file import LOOK, CsvFile


def shown(folder: Path, text: str, error: str | None = None) -> str:
    """Return what a run on a file prints, in one line. It must raise an error that contains `error`."""
    path = folder / "events.csv"
    path.write_text("a,b,y\n" + text, encoding="utf-8")
    settings = load(assignments=["broker=none", "model.name=linear"])
    source = CsvFile(path, "y", "s", types={"a": Kind.NUMBER})
    source.look(None)
    output = io.StringIO()
    plan = Plan(source, None, rows_per_message=100, explainers=1, out=None, keep_topics=False)
    console = Console(file=output, width=200)
    if error is None:
        run(settings, plan, console)
    else:
        with pytest.raises(InputError, match=error):
            run(settings, plan, console)
    return " ".join(output.getvalue().split())


@pytest.mark.parametrize("labels", ["uv", " "])
@pytest.mark.parametrize("count", [200, 201])
def test_the_last_notices(tmp_path: Path, count: int, labels: str) -> None:
    """The last event may publish nothing, as when the labelled rows end on a round number, or there are none."""
    rows = "".join(f"{n if n % 2 else 'oops'},{n},{labels[n % len(labels)].strip()}\n" for n in range(count))
    text = shown(tmp_path, rows)
    assert f"'oops' on line 2 is not a number (cells like it: {(count + 1) // 2}): treated as empty" in text
    assert f"{count} event" in text


def test_a_line_that_is_no_row_costs_no_results(tmp_path: Path) -> None:
    rows = "oops,1,u\n" + "1,2,v\n" * LOOK + "Source: the office\n"
    text = shown(tmp_path, rows, "line 1003: expected 3 cells as in the header, got 1; if the line is no row")
    assert "'oops' on line 2 is not a number (cells like it: 1)" in text
    assert "rows explained" in text
    assert "only the first 1,001 events could be read; the results are partial" in text
