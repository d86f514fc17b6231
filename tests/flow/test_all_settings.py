"""The reference of all settings is complete and readable."""

import msgspec

from glasstream.app.reference import settings_page
from glasstream.flow.settings import Settings, flatten

PAGE = settings_page()


def test_every_setting_has_a_row_with_a_default_its_values_and_a_meaning() -> None:
    rows = {}
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if line.startswith("| `"):
            assert len(cells) == 5, line
            assert all(cells), line
            rows[cells[0].strip("`")] = cells
    assert rows.keys() == flatten(msgspec.to_builtins(Settings())).keys()


def test_ranges_and_defaults_are_those_of_the_declarations() -> None:
    assert "| `drift.window` | `100` | whole number ≥ 4, ≤ 100,000 | explanations |" in PAGE
    assert "| `explain.alpha` | `0.001` | number > 0, ≤ 1 | explanations |" in PAGE
    assert "| `limits.lag` | `wait` | `wait`, `shed` | no numbers |" in PAGE
    assert "| `health.port` | unset | whole number ≥ 1, ≤ 65,535 | no numbers |" in PAGE


def test_an_inherited_setting_keeps_its_description() -> None:
    assert "| `ipdp.low` | `0.05` | number ≥ 0, < 1 | explanations | Level of the lowest quantile" in PAGE
