"""Files of `--out`: a disk that is full is an error of the user's folder, with its name."""

from pathlib import Path

import pytest

from glasstream.app.runner.outputs import OutputDirectory
from glasstream.base.errors import InputError


def test_a_full_disk_is_named(tmp_path: Path) -> None:
    (tmp_path / "predictions.part").symlink_to("/dev/full")
    record = b'{"stream":"s","seq":1,"text":"' + b"x" * 100_000 + b'"}'
    full = pytest.raises(InputError, match=r"predictions\.jsonl cannot be written: No space left on device")
    with full, OutputDirectory(tmp_path, ("predictions",)) as out:
        out.add("predictions", record)
