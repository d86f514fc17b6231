"""Serve the page until a signal ends it, and open it in a browser."""

import asyncio
import logging
import os
import signal
import ssl
import sys
from collections.abc import Callable

from glasstream.app.page.access import Access
from glasstream.app.page.reading import Topics
from glasstream.app.page.server import PageServer
from glasstream.app.page.store import Store
from glasstream.app.page.tls import tls
from glasstream.flow.settings import Settings
from glasstream.kafka.secret import page_token
from glasstream.kafka.transport.connection import connection
from glasstream.kafka.transport.redact import RedactingFormatter


def page(settings: Settings, *, open_browser: bool, say: Callable[[str], None]) -> None:
    """Serve the page until SIGTERM or an interrupt.

    Parameters
    ----------
    open_browser
        Whether to open the page in a browser.
    say
        Function that prints a line for the user, such as the address.

    Raises
    ------
    SettingsError
        The address cannot be opened, or needs a token, or the certificate cannot be used.
    BrokerError, TopicError
        The topics cannot be read.
    """
    access = Access(settings.page.host, page_token(os.environ))
    context = tls(settings.page.tls_cert, settings.page.tls_key)
    handler = logging.StreamHandler()
    handler.setFormatter(RedactingFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    asyncio.run(_serve(settings, access, context, open_browser, say))


async def _serve(
    settings: Settings,
    access: Access,
    context: ssl.SSLContext | None,
    open_browser: bool,
    say: Callable[[str], None],
) -> None:
    end = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end.set)
    options = settings.page
    prefixes = [settings.prefix, *options.prefixes_beside]
    topics = await asyncio.to_thread(Topics, connection(settings), prefixes, options.history)
    store = Store(options.streams, options.features, options.listed, watched=settings.drift.finds_incidents)
    server = PageServer(topics, store, access, options.host, options.port, context)
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
    """Open the page in the user's browser if there is a screen. A text browser would take over the terminal."""
    import webbrowser

    if sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"):
        webbrowser.open(address)
