"""What the page on the checks shows in Python is so."""

import doctest
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "ops" / "docs" / "checks.md"


def test_the_examples_of_the_page_on_checks_run() -> None:
    result = doctest.testfile(str(PAGE), module_relative=False)
    assert result.attempted > 0 and result.failed == 0
