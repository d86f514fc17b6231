"""Access control of the page, and the security headers that browsers must obey."""

import hashlib
import hmac
from collections.abc import Mapping
from ipaddress import ip_address

from glasstream.base.errors import SettingsError

COOKIE = "glasstream_page"
TOKEN_CHARACTERS = 16
"""Smallest length of a token. Shorter tokens can be guessed."""

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
    """Return whether a host can be reached from this machine alone.

    >>> [is_loopback(host) for host in ("localhost", "127.0.0.2", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


class Access:
    """Access control: allow all clients on this machine, or all clients with the token.

    Parameters
    ----------
    host
        Address on which the page listens.
    token
        Access token. With None no token is asked for, which is allowed on loopback only.

    Raises
    ------
    SettingsError
        A token is required and missing, or it is too short.
    """

    def __init__(self, host: str, token: str | None) -> None:
        if token is not None and len(token) < TOKEN_CHARACTERS:
            raise SettingsError(
                [
                    f"GLASSTREAM_PAGE_TOKEN: expected {TOKEN_CHARACTERS} characters or more, got fewer; "
                    "`openssl rand -hex 16` prints one"
                ]
            )
        if token is None and not is_loopback(host):
            raise SettingsError(
                [
                    f"page.host: {host} can be reached from other machines, so the page needs a token, but has none; "
                    "set GLASSTREAM_PAGE_TOKEN or GLASSTREAM_PAGE_TOKEN_FILE (`openssl rand -hex 16` prints one), or "
                    "use 127.0.0.1"
                ]
            )
        self._token = token
        self._pass = "" if token is None else hmac.new(token.encode(), COOKIE.encode(), hashlib.sha256).hexdigest()

    @property
    def open(self) -> bool:
        """Whether no token is asked for."""
        return self._token is None

    def knows_host(self, header: str) -> bool:
        """Return whether a request may name this host.

        Without a token only names of this machine are allowed. This stops foreign pages whose host name was made to
        resolve to this machine (DNS rebinding).
        """
        if self._token is not None:
            return True
        host = header.rpartition("]")[0].removeprefix("[") if header.startswith("[") else header.partition(":")[0]
        return is_loopback(host)

    def lets_in(self, cookie: str | None, authorization: str | None) -> bool:
        """Return whether a request with this cookie or `Authorization` header may see the data."""
        if self._token is None or (cookie is not None and _same(cookie, self._pass)):
            return True
        scheme, _, given = (authorization or "").partition(" ")
        return scheme.lower() == "bearer" and self.is_token(given.strip())

    def is_token(self, given: str) -> bool:
        """Return whether a text is the token."""
        return self._token is not None and _same(given, self._token)

    @property
    def cookie(self) -> str:
        """Return the cookie for a browser that has sent the token. The token cannot be derived from it."""
        return self._pass


def _same(given: str, expected: str) -> bool:
    """Compare two texts in constant time."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), expected.encode())
