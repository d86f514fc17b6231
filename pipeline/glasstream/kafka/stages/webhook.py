"""Posts to a webhook. Its address may be a secret: errors and log lines show only scheme, host and port."""

import logging
import math
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Literal
from urllib.request import getproxies, proxy_bypass

import aiohttp
from yarl import URL

from glasstream.base.errors import SettingsError

log = logging.getLogger(__name__)

_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_TEMPORARY = (408, 425, 429)
"""Statuses 4xx with which a server asks for another attempt."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a request.

    Attributes
    ----------
    outcome
        ``ok`` (2xx); ``refused``, if the same request would be refused again (3xx, or 4xx other than 408, 425 and
        429); ``failed`` in all other cases.
    detail
        Status of the answer, or the error.
    pause
        Seconds for which the server asks to wait (``Retry-After``).
    """

    outcome: Literal["ok", "refused", "failed"]
    detail: str
    pause: float = 0.0


class Webhook:
    """Client of one webhook, a service of the stage.

    It follows no redirects, keeps no cookies, and sends no login of `~/.netrc`. A proxy (``HTTPS_PROXY``) and
    certificates of authorities (``SSL_CERT_FILE``) come from the environment.

    Parameters
    ----------
    address
        Address of the webhook.
    timeout
        Seconds after which a request without an answer has failed.
    clock
        Clock in seconds since 1970, for a ``Retry-After`` that names a time.

    Raises
    ------
    SettingsError
        The address is not an http or https address.
    """

    def __init__(self, address: str, timeout: float, clock: Callable[[], float] = time.time) -> None:
        self._url = _url(address)
        self._timeout = aiohttp.ClientTimeout(total=timeout)
        self._clock = clock
        self._session: aiohttp.ClientSession | None = None
        self._proxy: str | None = None
        self.place = str(self._url.origin())
        """Scheme and host, and the port unless it is the default one. Only this part of the address may be shown."""

    async def start(self) -> None:
        """Open the client. It connects when it posts."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=ssl.create_default_context()),
            timeout=self._timeout,
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
        )
        self._proxy = _proxy(self._url)
        if self._url.scheme == "http" and self._url.host not in _LOOPBACK:
            log.warning(
                "the webhook at %s has no encryption: every network on the path can read its address and content; "
                "set an https address in GLASSTREAM_NOTIFY_URL",
                self.place,
            )

    async def stop(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()

    async def post(self, body: bytes, headers: Mapping[str, str]) -> Answer:
        """Post a JSON body once, and return what became of it."""
        if self._session is None:
            raise RuntimeError("expected a webhook that was started, got one that was not; call start() first")
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", **headers}
        try:
            async with self._session.post(
                self._url, data=body, headers=headers, allow_redirects=False, proxy=self._proxy
            ) as response:
                if 200 <= response.status < 300:
                    return Answer("ok", str(response.status))
                # Nothing else of the answer: servers repeat the path of the request, which is a secret.
                detail = f"{response.status} {ascii(response.reason or '')[1:-1]}"[:100].rstrip()
                kept = 300 <= response.status < 500 and response.status not in _TEMPORARY
                pause = retry_after(response.headers.get("Retry-After", ""), self._clock())
                return Answer("refused" if kept else "failed", detail, pause)
        except TimeoutError:
            return Answer("failed", f"no answer within {self._timeout.total:g} s")
        except (aiohttp.ClientError, OSError) as error:
            return Answer("failed", _named(error))


def _proxy(url: URL) -> str | None:
    """Return the proxy that the environment names for an address. aiohttp would also read logins from files."""
    return None if proxy_bypass(url.host or "") else getproxies().get(url.scheme)


def _named(error: Exception) -> str:
    """Return the kind and the cause of an error. Its own text may contain the address."""
    cause = error.strerror if isinstance(error, OSError) else None
    return f"{type(error).__name__}: {cause}" if cause else type(error).__name__


def _url(address: str) -> URL:
    try:
        url = URL(address)
        valid = url.scheme in ("http", "https") and bool(url.host) and url.port is not None
    except ValueError:
        valid = False
    if not valid:
        raise SettingsError(
            ["GLASSTREAM_NOTIFY_URL: expected an address such as https://hooks.example.org/..., got something else"]
        )
    return url


def retry_after(text: str, now: float) -> float:
    """Return the seconds that a ``Retry-After`` asks for, as a number or as a date; 0 if it cannot be read.

    Examples
    --------
    >>> retry_after("120", 0.0), retry_after("Thu, 01 Jan 1970 00:01:00 GMT", 50.0), retry_after("soon", 0.0)
    (120.0, 10.0, 0.0)
    """
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - now
        except (ValueError, OverflowError):
            return 0.0
    return max(0.0, seconds) if math.isfinite(seconds) else 0.0
