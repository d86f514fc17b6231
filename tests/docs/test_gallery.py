"""The gallery of incidents: it shows what runs over its data sets publish now."""

from pathlib import Path

import pytest

from tests.support.gallery import EXHIBITS, PAGE, Exhibit, run, section


@pytest.mark.slow
@pytest.mark.parametrize(
    "exhibit", [pytest.param(one, marks=pytest.mark.long if one.model == "forest" else ()) for one in EXHIBITS]
)
def test_the_gallery_shows_the_incidents_of_its_streams(exhibit: Exhibit, data_dir: Path, tmp_path: Path) -> None:
    run(exhibit, data_dir, tmp_path)
    assert section(exhibit, tmp_path) in PAGE.read_text(encoding="utf-8")
    assert PAGE.with_name(f"gallery-{exhibit.data}.png").exists()
