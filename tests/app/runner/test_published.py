"""The public topics of runs on real data have the bytes of before."""

import json
import sys

import pytest

from tests.support import published


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info[:2] != published.PYTHON, reason="other last bits")
@pytest.mark.parametrize("name", published.RUNS)
def test_public_topics_have_the_bytes_of_before(name, data_dir):
    found = published.digests(name, data_dir)
    found.pop(published.NOT_KEPT, None)
    expected = json.loads(published.FILE.read_text(encoding="utf-8"))[name]
    # If it is intended: `python -m tests.support.published --write`, and a line in CHANGELOG.md.
    assert found == expected
