"""Functions of tests that `./ops/check` leaves out unless it gets an argument: those that take longest.

The others take a tenth of the time of all. `python tests/support/heavy.py REPORT` writes the list anew, from what
`./ops/check --junitxml REPORT` reports.
"""

import argparse
from collections import Counter
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

LIST: Final = Path(__file__).with_suffix(".txt")
SHARE: Final = 0.1


def heavy() -> frozenset[str]:
    """Return the functions as `path::name`, with paths from the folder of the tests on."""
    return frozenset(LIST.read_text(encoding="utf-8").split())


def slowest(report: Path) -> list[str]:
    """Return the functions to leave out so that those that take least fill their share of the time in a report."""
    seconds = Counter[str]()
    for case in ElementTree.parse(report).iter("testcase"):
        module, name = case.attrib["classname"], case.attrib["name"].partition("[")[0]
        if module.startswith("tests."):
            seconds[f"{module.removeprefix('tests.').replace('.', '/')}.py::{name}"] += float(case.attrib["time"])
    left, result = SHARE * seconds.total(), []
    for name, took in sorted(seconds.items(), key=lambda item: item[1]):
        left -= took
        if left < 0:
            result.append(name)
    return sorted(result)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("report", type=Path)
    LIST.write_text("".join(f"{name}\n" for name in slowest(parser.parse_args().report)), encoding="utf-8")


if __name__ == "__main__":
    main()
