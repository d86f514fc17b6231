"""`glasstream page`: what the public topics say, in a browser."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from pipeline.errors import SettingsError
from pipeline.page.access import Access
from pipeline.page.reading import Topics
from pipeline.page.server import PageServer
from pipeline.page.store import Store
from pipeline.settings import Settings
from pipeline.stages.build import connection


def page(settings: Settings, *, open_browser: bool, say: Callable[[str], None]) -> None:
    """Serve until SIGTERM or an interrupt.

    Parameters
    ----------
    open_browser
        Whether to show it.
    say
        Takes a line for the person watching: the address.

    Raises
    ------
    SettingsError
        The address cannot be had, or needs a token.
    BrokerError, TopicError
        The topics cannot be read.
    """
    access = Access(settings.page.host, page_token(os.environ))
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    asyncio.run(_serve(settings, access, open_browser, say))


async def _serve(settings: Settings, access: Access, open_browser: bool, say: Callable[[str], None]) -> None:
    end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end.set)
    options = settings.page
    topics = await asyncio.to_thread(Topics, connection(settings), settings.prefix, options.history)
    server = PageServer(topics, Store(options.streams, options.features), access, options.host, options.port)
    try:
        address = await server.start()
        say(f"page: {address}" + ("" if access.open else " (asks for the token)"))
        if open_browser:
            await asyncio.to_thread(_show, address)
        await server.serve(end)
    finally:
        await server.stop()
        await asyncio.to_thread(topics.close)


def _show(address: str) -> None:
    """In the person's browser, where there is a screen: in a terminal a text browser would take that over."""
    import webbrowser

    if sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(address)


def page_token(environment: Mapping[str, str]) -> str | None:
    """The token of the page: ``GLASSTREAM_PAGE_TOKEN``, or the content of ``GLASSTREAM_PAGE_TOKEN_FILE``.

    Raises
    ------
    SettingsError
        The file cannot be read.
    """
    file = environment.get("GLASSTREAM_PAGE_TOKEN_FILE")
    if file is None:
        return environment.get("GLASSTREAM_PAGE_TOKEN")
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError([f"GLASSTREAM_PAGE_TOKEN_FILE: {file} cannot be read: {error}"]) from error
