"""The picture of the live page in the documentation: `python -m tests.support.page_picture` takes it anew."""

import re
import subprocess
import sys
from collections.abc import Iterable
from io import BytesIO

from PIL import Image

from tests.support.browsing import browser_path, launched, viewing
from tests.support.docs_pages import ROOT

PICTURE = ROOT / "ops" / "docs" / "page.png"
RUN = ("run", "--page", "--hold", "--explain", "ipfi,isage,ipdp,novelty", "--set", "page.port=0")


def main() -> None:
    path = browser_path()
    if path is None:
        raise SystemExit("expected a Chromium, found none: apt-get install chromium, or set GLASSTREAM_TEST_BROWSER")
    command = [sys.executable, "-m", "glasstream", *RUN]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        try:
            take(run.stdout or (), path)
        finally:
            run.terminate()


def take(lines: Iterable[str], browser_at: str) -> None:
    """Take the picture of the page whose address a run prints."""
    address = None
    for line in lines:
        found = re.search(r"page: (http://127\.0\.0\.1:\d+/)", line)
        address = found.group(1) if found else address
        if "the page stays open" in line:
            break
    if address is None:
        raise SystemExit("expected the address of the page from the run, got none before it ended")
    with launched(browser_at) as browser, viewing(browser, address) as view:
        view.open()
        view.wait("glasstream.known?.reading === null && glasstream.known.novelty?.last_seq === 19999")
        shot = Image.open(BytesIO(view.page.screenshot()))
        shot.quantize(256, dither=Image.Dither.NONE).save(PICTURE, optimize=True)


if __name__ == "__main__":
    main()
