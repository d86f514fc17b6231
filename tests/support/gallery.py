"""The gallery of incidents: runs over real streams, whose incidents and importance `ops/docs/gallery.md` shows.

`python -m tests.support.gallery` writes the page and its pictures anew. The incidents are a function of the data; the
bytes of the pictures also depend on the version of matplotlib.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from tests.support.docs_pages import ROOT

PAGE = ROOT / "ops" / "docs" / "gallery.md"


class Exhibit(NamedTuple):
    """Run over one data set."""

    data: str
    title: str
    about: str
    model: str
    rows: int


EXHIBITS = (
    Exhibit(
        "elec2",
        "A market grows: electricity prices in New South Wales",
        "Half-hourly prices and demand; the label is whether the price rises. The columns about the neighbouring state "
        "Victoria and the transfer between both are constant until row 17,424, when Victoria's market was connected.",
        "forest",
        20_000,
    ),
    Exhibit(
        "bike_hourly",
        "The seasons of a young service: hourly bicycle rentals in Washington",
        "The stream begins in January 2011 and counts months and seasons in columns of their own, so that each change "
        "of the calendar is a change of the data.",
        "tree",
        8_000,
    ),
    Exhibit(
        "air_quality",
        "Sensors and seasons: carbon monoxide in an Italian city",
        "Hourly means of gas sensors with gaps, from March 2004 on; the target is the reference measurement of carbon "
        "monoxide. With the seasons, the sensors drift apart.",
        "tree",
        7_355,
    ),
)


def glasstream(*arguments: str | Path) -> None:
    """Run a command of Glasstream."""
    command = [sys.executable, "-m", "glasstream", *map(str, arguments)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=1200)
    if done.returncode:
        raise RuntimeError(f"{arguments[0]}: ended with {done.returncode}: {done.stderr[-2000:]}")


def run(exhibit: Exhibit, data: Path, results: Path) -> None:
    """Run all stages in a plain loop over the data set, and write the public records to the folder `results`."""
    source = ("--csv", data / f"{exhibit.data}.csv.gz", "--target", "target", "--rows", str(exhibit.rows))
    glasstream("run", *source, "--model", exhibit.model, "--broker", "none", "--out", results)


def section(exhibit: Exhibit, results: Path) -> str:
    """Return the part of the page about a run: its picture, and the last record of each incident."""
    records = [json.loads(line) for line in (results / "incidents.jsonl").read_text(encoding="utf-8").splitlines()]
    newest = {record["incident"]: record for record in records}
    lines = [
        f"## {exhibit.title}\n",
        f"{exhibit.about} `{exhibit.data}`, model `{exhibit.model}`, {exhibit.rows:,} rows.\n",
        f"![Importance and incidents of {exhibit.data}](gallery-{exhibit.data}.png)\n",
    ]
    for number, record in newest.items():
        lines.append(f"{number}. **{record['status']}**, {record['verdict'].replace('_', ' ')}: {record['summary']}")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Write the page and the pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="folder of the data sets")
    data = parser.parse_args().data
    head = PAGE.read_text(encoding="utf-8").partition("\n## ")[0].rstrip() + "\n"
    sections = []
    for exhibit in EXHIBITS:
        with tempfile.TemporaryDirectory() as folder:
            results = Path(folder)
            run(exhibit, data, results)
            sections.append(section(exhibit, results))
            incidents = ("--incidents", results / "incidents.jsonl", "--top", "5")
            picture = PAGE.with_name(f"gallery-{exhibit.data}.png")
            glasstream("plot", "importance", results / "importance.jsonl", *incidents, "--out", picture)
        print(f"{exhibit.data}: done", flush=True)
    PAGE.write_text("\n".join([head, *sections]), encoding="utf-8")


if __name__ == "__main__":
    main()
