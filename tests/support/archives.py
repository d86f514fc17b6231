"""Archives of this test run."""

import tarfile
from pathlib import Path


def extract(archive: tarfile.TarFile, folder: Path) -> None:
    """Extract an archive, without what leaves the folder where Python can check that (3.11.4 and later)."""
    checked = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
    archive.extractall(folder, **checked)
