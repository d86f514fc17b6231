"""What tests share: the data, a real Kafka, and the tiers.

Fast tests run by default, the slow ones with `--slow`. A test that asks for `kafka` or `local_broker` gets the marker
`kafka`, one that asks for `chromium` the marker `browser`. What is missing on this machine skips the tests that need
it, in one line of the summary; with CI=true, and for Kafka also with GLASSTREAM_REQUIRE_KAFKA=1, it fails them.
"""

import os
import shutil
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from pipeline.brokers.local import Kafka, local_kafka
from pipeline.errors import BrokerError

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SLOW_LEFT_OUT = pytest.StashKey[int]()
NO_DATA = "no data sets"
NO_KAFKA = "no real Kafka"
NO_BROWSER = "no browser"
collect_ignore_glob = ["benchmarks/*", "chaos/*"]
"""Programs, not tests: they change the path of modules when they are imported."""
IN_CI = os.environ.get("CI") == "true"

# Before scikit-learn is loaded, here and in what tests start: where the tests share the processors, OpenMP's threads
# wait for each other, which turned 9 s of tests with gradient boosting into 190 s.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The first call of a compiled function takes seconds: no deadline. In CI the same examples every time.
hypothesis.settings.register_profile("glasstream", deadline=None, derandomize=IN_CI)
hypothesis.settings.load_profile("glasstream")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run the tests marked slow")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if {"kafka", "local_broker"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("kafka")
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)  # a long one that comes last is waited for
    if not config.getoption("--slow"):
        left_out = [item for item in items if item.get_closest_marker("slow")]
        items[:] = [item for item in items if not item.get_closest_marker("slow")]
        config.hook.pytest_deselected(items=left_out)
        config.stash[SLOW_LEFT_OUT] = len(left_out)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if count := config.stash.get(SLOW_LEFT_OUT, 0):
        terminalreporter.write_line(f"{count} slow tests left out; `./ops/test --slow` runs them")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Give all skips for one missing thing the same place, so that the summary folds them into one line."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if reason.startswith((NO_DATA, NO_KAFKA, NO_BROWSER)):
            report.longrepr = (__file__, 1, reason)
    return report


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with the data sets: GLASSTREAM_DATA, else shared/data beside the checkout."""
    given = os.environ.get("GLASSTREAM_DATA")
    folder = Path(given) if given else Path(__file__).resolve().parents[2] / "shared" / "data"
    if folder.is_dir():
        return folder
    message = f"{NO_DATA}: looked in {folder} ({'' if given else 'set '}GLASSTREAM_DATA)"
    if IN_CI:
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


@pytest.fixture(scope="session")
def kafka() -> Iterator[str]:
    """Bootstrap address of a real Kafka that all tests share: GLASSTREAM_TEST_KAFKA, else a local one."""
    given = os.environ.get("GLASSTREAM_TEST_KAFKA")
    if given:
        yield given
        return
    with ExitStack() as stack:
        yield _started(stack).bootstrap


@pytest.fixture
def chromium() -> "Iterator[Browser]":
    """The system's Chromium: GLASSTREAM_TEST_BROWSER, else the first on the path. Playwright brings none."""
    names = [os.environ.get("GLASSTREAM_TEST_BROWSER"), "chromium", "chromium-browser", "google-chrome"]
    path = next((found for name in names if name and (found := shutil.which(name))), None)
    if path is None:
        message = f"{NO_BROWSER}: install Chromium (apt-get install chromium), or set GLASSTREAM_TEST_BROWSER to one"
        if IN_CI:
            pytest.fail(message, pytrace=False)
        pytest.skip(message)
    from playwright.sync_api import sync_playwright

    # Not longer than a test: as long as Playwright runs, no other test of the process has an event loop.
    with sync_playwright() as playwright:
        sandbox = os.geteuid() != 0  # Chromium has none to offer to root
        browser = playwright.chromium.launch(executable_path=path, chromium_sandbox=sandbox)
        yield browser
        browser.close()


@pytest.fixture
def local_broker() -> Iterator[Callable[..., Kafka]]:
    """Starts Kafkas of a test's own, to be paused and killed: `local_broker(data=None, settings=None)`."""
    with ExitStack() as stack:

        def start(data: Path | None = None, settings: Mapping[str, str] | None = None) -> Kafka:
            return _started(stack, data, settings)

        yield start


@pytest.fixture
def prefix() -> str:
    """A topic prefix that no other test and no earlier session used."""
    return f"test-{uuid.uuid4().hex[:12]}."


def _started(stack: ExitStack, data: Path | None = None, settings: Mapping[str, str] | None = None) -> Kafka:
    try:
        return stack.enter_context(local_kafka(data, settings=settings))
    except BrokerError as error:
        reason = f"{NO_KAFKA}: {error}"
    if IN_CI or os.environ.get("GLASSTREAM_REQUIRE_KAFKA") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
