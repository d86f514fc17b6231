"""The documentation site: every link leads somewhere, every page is in the navigation, and all of it works offline."""

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from glasstream import __all__ as NAMES
from tests.support.browsing import viewing
from tests.support.docs_pages import ROOT

if TYPE_CHECKING:
    from playwright.sync_api import Browser

FOLDERS = (".", "ops", "ops/docs", "ops/decisions")
"""Folders with pages."""
LOADED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=\"?(?:https?:)?//|url\(\W?(?:https?:)?//")
"""What a page or a style sheet loads from another host."""
pytestmark = pytest.mark.slow


def build(source: Path, target: Path) -> subprocess.CompletedProcess[str]:
    """Build the pages of a folder as `ops/site` does."""
    options = ("--fail-on-warning", "--quiet", "--conf-dir", str(ROOT / "ops" / "docs"))
    command = (sys.executable, "-m", "sphinx", *options, str(source), str(target))
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    built = build(ROOT, folder)
    assert built.stderr == ""
    assert built.returncode == 0
    return folder


def test_every_public_name_is_in_the_api_reference(site: Path) -> None:
    text = (site / "ops" / "docs" / "api.html").read_text(encoding="utf-8")
    assert {f"glasstream.{name}" for name in NAMES if name != "GlasstreamError"} <= {
        *re.findall(r'<dt [^>]*id="([\w.]+)"', text)
    }


def test_a_broken_link_and_a_page_outside_the_navigation_would_be_found(tmp_path: Path) -> None:
    for folder in FOLDERS:
        (tmp_path / "pages" / folder).mkdir(parents=True, exist_ok=True)
        for page in (*(ROOT / folder).glob("*.md"), *(ROOT / folder).glob("*.rst")):
            (tmp_path / "pages" / folder / page.name).write_text("Title\n=====\n", encoding="utf-8")
    readme = tmp_path / "pages" / "README.md"
    links = ("ops/docs/absent.md", "ops/docs/tutorial.md#absent", "#absent", "absent.json")
    readme.write_text("# Title\n\n" + "\n".join(f"[link]({link})" for link in links) + "\n", encoding="utf-8")
    (tmp_path / "pages" / "ops" / "docs" / "other.md").write_text("# Title\n", encoding="utf-8")
    built = build(tmp_path / "pages", tmp_path / "broken")
    assert built.returncode != 0
    assert len(re.findall(r"README\.md:\d+: WARNING", built.stderr)) == len(links), built.stderr
    assert re.search(r"other\.md: WARNING", built.stderr)
    assert built.stderr.count("WARNING") == len(links) + 1, built.stderr


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    """Address of a server of the site."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


def test_the_site_can_be_searched_and_asks_no_other_host(site: Path, address: str, chromium: "Browser") -> None:
    for file in site.rglob("*.*"):
        if file.suffix in (".html", ".css"):
            text = file.read_text(encoding="utf-8")
            assert not LOADED.search(text), file
    with viewing(chromium, address) as view:
        view.page.goto(address)
        view.page.fill("input[name=q]", "transaction.seconds")
        view.page.keyboard.press("Enter")
        view.wait("document.querySelector('#search-results a[href*=\"all-settings\"]') !== null")
        view.page.set_viewport_size({"width": 390, "height": 844})
        for page in ("index", "ops/docs/all-settings", "ops/docs/api", "ops/docs/operating"):
            view.page.goto(f"{address}{page}.html")
            assert view.get("document.documentElement.scrollWidth") <= 390, f"{page}.html is wider than a phone"
        assert view.complaints == []
