"""Who is let in, and what a browser is told to keep to."""

import hashlib
import hmac
from collections.abc import Mapping
from ipaddress import ip_address

from glasstream.errors import SettingsError

COOKIE = "glasstream_page"
TOKEN_CHARACTERS = 16
"""A shorter token can be guessed."""

HEADERS: Mapping[str, str] = {
    "Server": "glasstream",
    # Nothing but our own files, no other host, no inline script or style, no frame around us.
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def is_loopback(host: str) -> bool:
    """Whether a host is reached from this machine alone.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


class Access:
    """Decides who is let in: everybody of this machine, or who has the token.

    Parameters
    ----------
    host
        What the page listens on.
    token
        None: none is asked for, which is for loopback alone.

    Raises
    ------
    SettingsError
        There must be a token and is none, or it is too short.
    """

    def __init__(self, host: str, token: str | None) -> None:
        if token is not None and len(token) < TOKEN_CHARACTERS:
            raise SettingsError(
                [
                    f"GLASSTREAM_PAGE_TOKEN: expected {TOKEN_CHARACTERS} characters or more, got fewer; "
                    "`openssl rand -hex 16` makes one"
                ]
            )
        if token is None and not is_loopback(host):
            raise SettingsError(
                [
                    f"page.host: {host} can be reached from other machines, so a token is needed, and there is none; "
                    "set GLASSTREAM_PAGE_TOKEN or GLASSTREAM_PAGE_TOKEN_FILE (`openssl rand -hex 16` makes one), or "
                    "keep to 127.0.0.1"
                ]
            )
        self._token = token
        self._pass = "" if token is None else hmac.new(token.encode(), COOKIE.encode(), hashlib.sha256).hexdigest()

    @property
    def open(self) -> bool:
        """Whether no token is asked for."""
        return self._token is None

    def knows_host(self, header: str) -> bool:
        """Whether a request may name this host. Without a token only names of this machine: a page of elsewhere whose
        name was made to point here names another."""
        if self._token is not None:
            return True
        host = header.rpartition("]")[0].removeprefix("[") if header.startswith("[") else header.partition(":")[0]
        return is_loopback(host)

    def lets_in(self, cookie: str | None, authorization: str | None) -> bool:
        """Whether a request with this cookie or `Authorization` header may see the data."""
        if self._token is None or (cookie is not None and _same(cookie, self._pass)):
            return True
        scheme, _, given = (authorization or "").partition(" ")
        return scheme.lower() == "bearer" and self.is_token(given.strip())

    def is_token(self, given: str) -> bool:
        """Whether this is the token."""
        return self._token is not None and _same(given, self._token)

    @property
    def cookie(self) -> str:
        """What the browser of somebody who gave the token may come with; the token cannot be made from it."""
        return self._pass


def _same(given: str, expected: str) -> bool:
    """Compared in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), expected.encode())
