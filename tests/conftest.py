"""Fixtures that all tests share: the data, a real Kafka, and the tiers.

Fast tests run by default, the slow ones with `--slow`, and the long ones, too, with `--long`. A test that asks for
`kafka`, `local_broker`, `cluster` or `schema_registry` gets the marker `kafka`, one that asks for `chromium` the marker
`browser`. Tests of some folders get the marker `program`, and others carry it; `--quick` leaves all three out.
`--light` leaves out what `tests.support.heavy` lists. What is missing on this machine skips the tests that need it, in
one line of the summary; with CI=true, and for Kafka also with GLASSTREAM_REQUIRE_KAFKA=1, it fails them.
"""

import fcntl
import gc
import os
import shutil
import subprocess
import uuid
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import hypothesis
import pytest

from glasstream.app.brokers.embedded import EmbeddedKafka
from glasstream.app.brokers.local import Kafka, local_kafka
from glasstream.base.errors import BrokerError
from tests.support.examples import NORMAL
from tests.support.heavy import heavy
from tests.support.local_cluster import LocalCluster, local_cluster

if TYPE_CHECKING:
    from playwright.sync_api import Browser

LEFT_OUT = pytest.StashKey[dict[str, int]]()
"""Number of tests that were left out, by the option that runs them."""
NO_DATA = "no data sets"
NO_KAFKA = "no real Kafka"
NO_REGISTRY = "no schema registry"
NO_BROWSER = "no browser"
NO_PROMETHEUS = "no Prometheus"
NO_NODE = "no Node"
collect_ignore_glob = ["benchmarks/*", "chaos/*"]
"""Programs, not tests: they change the path of modules when they are imported."""
TESTS = Path(__file__).resolve().parent
PROGRAMS = ("docs", "integration", "ops")
"""Folders whose tests start whole programs, build packages or run the documents: they get the marker `program`."""
WITH_KAFKA = ("app/brokers", "app/page", "docs", "integration")
"""Folders with tests that need a Kafka: `-m kafka` imports no others."""
IN_CI = os.environ.get("CI") == "true"

# Before scikit-learn is loaded, here and in what tests start: where the tests share the processors, OpenMP's threads
# wait for each other, which turned 9 s of tests with gradient boosting into 190 s.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The first call of a compiled function takes seconds: no deadline. The same examples every time in CI and in the
# loop of an edit.
for _profile, _count in (("check", 10), ("ci", NORMAL // 4), ("long", NORMAL), ("thorough", 10 * NORMAL)):
    _same = _profile == "check" or IN_CI
    hypothesis.settings.register_profile(_profile, max_examples=_count, deadline=None, derandomize=_same)
hypothesis.settings.load_profile("ci")


# A worker holds half a million objects after it has imported all tests, and tests make few cycles. Searching
# for garbage among them took a fifth of the tests' CPU time.
gc.set_threshold(50_000, 20, 20)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--slow", action="store_true", help="also run the tests marked slow")
    parser.addoption("--long", action="store_true", help="also run the tests marked slow or long")
    parser.addoption(
        "--quick", action="store_true", help="leave out what needs a broker, a browser, or whole programs: ops/check"
    )
    parser.addoption("--light", action="store_true", help="leave out the tests marked heavy")


def pytest_configure(config: pytest.Config) -> None:
    """Try more examples in the long form; a profile on the command line comes first."""
    if config.getoption("--long") and not config.getoption("--hypothesis-profile"):
        hypothesis.settings.load_profile("long")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import what `--quick` or `-m kafka` leaves out whole folders of."""
    if config.getoption("--quick"):
        return _within(collection_path, PROGRAMS) or None
    if config.option.markexpr == "kafka" and collection_path.suffix == ".py":
        return not _within(collection_path, WITH_KAFKA) or None
    return None


def _within(path: Path, folders: Iterable[str]) -> bool:
    """Return whether a file or folder lies in one of these folders of the tests."""
    return any(path.is_relative_to(TESTS / folder) for folder in folders)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    listed = heavy()
    for item in items:
        if f"{item.location[0].removeprefix('tests/')}::{getattr(item, 'originalname', '')}" in listed:
            item.add_marker("heavy")
        if {"kafka", "local_broker", "cluster", "schema_registry"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("kafka")
            if not _within(item.path, WITH_KAFKA):
                raise pytest.UsageError(f"{item.nodeid} needs a Kafka: expected it in {', '.join(WITH_KAFKA)} of tests")
        if "chromium" in getattr(item, "fixturenames", ()):
            item.add_marker("browser")
        if _within(item.path, PROGRAMS):
            item.add_marker("program")
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)  # a long one that comes last is waited for
    left_out = config.stash[LEFT_OUT] = {}
    if not config.getoption("--long"):
        left_out["long"] = _leave_out(config, items, "long")
        if not config.getoption("--slow"):
            left_out["slow"] = _leave_out(config, items, "slow")
    if config.getoption("--quick"):
        _leave_out(config, items, "kafka", "browser", "program")
    if config.getoption("--light"):
        left_out["heavy"] = _leave_out(config, items, "heavy")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leave out of all later searches for garbage what has been imported and collected until now."""
    gc.freeze()


def _leave_out(config: pytest.Config, items: list[pytest.Item], *markers: str) -> int:
    """Deselect what has one of these markers, and return how many there were."""
    left_out = [item for item in items if any(map(item.get_closest_marker, markers))]
    items[:] = [item for item in items if not any(map(item.get_closest_marker, markers))]
    config.hook.pytest_deselected(items=left_out)
    return len(left_out)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for name, count in config.stash.get(LEFT_OUT, {}).items():
        if count:
            command = "./ops/check tests pipeline topics" if name == "heavy" else f"./ops/test --{name}"
            terminalreporter.write_line(f"{count} {name} tests left out; `{command}` runs them")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Give all skips for one missing thing the same place, so that the summary folds them into one line."""
    report = yield
    if report.skipped and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2].removeprefix("Skipped: ")
        if reason.startswith((NO_DATA, NO_KAFKA, NO_REGISTRY, NO_BROWSER, NO_PROMETHEUS, NO_NODE)):
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
        yield _started(stack, settings={"log.cleaner.backoff.ms": "100"}).bootstrap


@pytest.fixture
def embedded() -> Iterator[EmbeddedKafka]:
    """The embedded broker, for laws that do not rest on groups, transactions, retention or compaction."""
    with EmbeddedKafka() as broker:
        yield broker


@pytest.fixture
def chromium() -> "Iterator[Browser]":
    """The system's Chromium: GLASSTREAM_TEST_BROWSER, else the first on the path. Playwright brings none."""
    from tests.support.browsing import browser_path, launched

    path = browser_path()
    if path is None:
        message = f"{NO_BROWSER}: install Chromium (apt-get install chromium), or set GLASSTREAM_TEST_BROWSER to one"
        if IN_CI:
            pytest.fail(message, pytrace=False)
        pytest.skip(message)
    # Not longer than a test: as long as Playwright runs, no other test of the process has an event loop.
    with launched(path) as browser:
        yield browser


@pytest.fixture(scope="session")
def javascript() -> Path:
    """The folder with the checks of the page's JavaScript, where the packages of its lock file are installed."""
    folder = TESTS / "app" / "page" / "javascript"
    reason = "install Node with npm (apt-get install nodejs npm)"
    if shutil.which("node") and shutil.which("npm"):
        with (folder / "package-lock.json").open(encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # workers of pytest-xdist
            wanted = lock.read()
            stamp = folder / "node_modules" / "installed"
            if stamp.is_file() and stamp.read_text(encoding="utf-8") == wanted:
                return folder
            command = ["npm", "ci", "--no-audit", "--no-fund", "--loglevel=error"]
            ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=600)
            if ran.returncode == 0:
                stamp.write_text(wanted, encoding="utf-8")
                return folder
        reason = f"`npm ci` failed in {folder}: {ran.stderr.strip()}"
    if IN_CI:
        pytest.fail(f"{NO_NODE}: {reason}", pytrace=False)
    pytest.skip(f"{NO_NODE}: {reason.splitlines()[0]}")


@pytest.fixture(scope="session")
def promtool() -> str:
    """Prometheus's tool that checks rules; its package has Prometheus itself as well."""
    return _of_prometheus("prometheus", "promtool")


@pytest.fixture(scope="session")
def alertmanager(promtool: str) -> str:
    """Prometheus's Alertmanager, beside Prometheus itself."""
    return _of_prometheus("prometheus-alertmanager", "prometheus-alertmanager", "alertmanager")


def _of_prometheus(package: str, *names: str) -> str:
    path = next((found for name in names if (found := shutil.which(name))), None)
    if path is not None:
        return path
    message = f"{NO_PROMETHEUS}: install {names[0]} (apt-get install {package})"
    if IN_CI:
        pytest.fail(message, pytrace=False)
    pytest.skip(message)


@pytest.fixture
def local_broker() -> Iterator[Callable[..., Kafka]]:
    """Starts Kafkas of a test's own, to be paused and killed: `local_broker(data=None, settings=None)`."""
    with ExitStack() as stack:

        def start(data: Path | None = None, settings: Mapping[str, str] | None = None) -> Kafka:
            return _started(stack, data, settings)

        yield start


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Three brokers that the tests of a module share; a test that ends one starts it again."""
    with ExitStack() as stack:
        try:
            started = stack.enter_context(local_cluster())
        except BrokerError as error:
            _without_kafka(error)
        yield started


@pytest.fixture
def prefix() -> str:
    """A topic prefix that no other test and no earlier session used."""
    return f"test-{uuid.uuid4().hex[:12]}."


def _started(stack: ExitStack, data: Path | None = None, settings: Mapping[str, str] | None = None) -> Kafka:
    try:
        return stack.enter_context(local_kafka(data, settings=settings))
    except BrokerError as error:
        _without_kafka(error)


def _without_kafka(error: BrokerError) -> NoReturn:
    reason = f"{NO_KAFKA}: {error}"
    if IN_CI or os.environ.get("GLASSTREAM_REQUIRE_KAFKA") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)
