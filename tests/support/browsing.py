"""A page in a real browser, and what it says of itself there (`window.glasstream`)."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright


def browser_path() -> str | None:
    """Return the path of a Chromium: GLASSTREAM_TEST_BROWSER, or one of the system; None if there is none."""
    names = [os.environ.get("GLASSTREAM_TEST_BROWSER"), "chromium", "chromium-browser", "google-chrome"]
    return next((found for name in names if name and (found := shutil.which(name))), None)


@contextmanager
def launched(path: str) -> Iterator[Browser]:
    """A browser without a window."""
    with sync_playwright() as playwright:
        sandbox = os.geteuid() != 0  # Chromium has none to offer to root
        browser = playwright.chromium.launch(executable_path=path, chromium_sandbox=sandbox)
        yield browser
        browser.close()


SECONDS = 90.0
"""Deadline for what a page shows. The stages of a run may take long to start beside other tests."""


@dataclass
class Viewing:
    """One tab."""

    page: Page
    address: str
    complaints: list[str] = field(default_factory=list)
    """Errors and warnings of the console, exceptions, and requests to other hosts."""

    def open(self, view: str = "") -> None:
        self.page.goto(f"{self.address}{'#' if view else ''}{view}")

    def wait(self, condition: str, argument: object = None) -> None:
        """Until an expression of JavaScript holds, and is drawn; with an argument, a function of that."""
        function = condition if argument is not None else f"() => {condition}"  # text alone would be for `eval`
        self.page.wait_for_function(function, arg=argument, timeout=SECONDS * 1000)
        self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => done()))")  # the page draws in one

    def get(self, expression: str) -> Any:
        return self.page.evaluate(expression)

    def drawn(self, chart: str) -> dict[str, list[Any]]:
        """By label what a chart holds; `x` too."""
        found = self.get(f"glasstream.drawn.{chart}")
        return {"x": found["x"], **{one["label"]: one["values"] for one in found["series"]}}


@contextmanager
def viewing(browser: Browser, address: str, **context: Any) -> Iterator[Viewing]:
    """A tab that notes what goes wrong in it."""
    tab = browser.new_context(viewport={"width": 1600, "height": 900}, **context)
    view = Viewing(tab.new_page(), address)

    def heard(message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            view.complaints.append(f"{message.type}: {message.text} ({message.location.get('url')})")

    def asked(request: Request) -> None:
        if not request.url.startswith((address, "data:")):
            view.complaints.append(f"request to {request.url}")

    view.page.on("console", heard)
    view.page.on("pageerror", lambda error: view.complaints.append(f"exception: {error}"))
    view.page.on("request", asked)
    try:
        yield view
    finally:
        tab.close()
