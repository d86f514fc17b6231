"""Laws of who is let in."""

import pytest

from glasstream.app.page.access import HEADERS, Access
from glasstream.base.errors import SettingsError

TOKEN = "0123456789abcdef"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "example.org"])
def test_a_host_that_others_reach_needs_a_token(host: str) -> None:
    with pytest.raises(SettingsError, match=f"page.host: {host} can be reached .* GLASSTREAM_PAGE_TOKEN"):
        Access(host, None)
    assert not Access(host, TOKEN).open


def test_a_short_token_is_refused_and_not_repeated() -> None:
    with pytest.raises(SettingsError, match="expected 16 characters") as raised:
        Access("127.0.0.1", "guessable")
    assert "guessable" not in str(raised.value)


def test_without_a_token_only_names_of_this_machine_are_answered() -> None:
    access = Access("127.0.0.1", None)
    for header in ("localhost", "localhost:8642", "127.0.0.1:8642", "[::1]:8642"):
        assert access.knows_host(header), header
    for header in ("", "evil.example:8642", "10.0.0.7:8642", "[2001:db8::1]:8642", "127.0.0.1.evil.example"):
        assert not access.knows_host(header), header


def test_the_token_the_cookie_made_of_it_and_nothing_else() -> None:
    access = Access("0.0.0.0", TOKEN)
    assert access.lets_in(None, f"Bearer {TOKEN}") and access.lets_in(access.cookie, None)
    assert TOKEN not in access.cookie
    for cookie, header in (
        (None, None),
        (TOKEN, None),
        ("", "Bearer "),
        (None, TOKEN),
        (None, "Bearer ä"),
        ("\udcff", ""),
    ):
        assert not access.lets_in(cookie, header)


def test_no_inline_script_no_other_host() -> None:
    policy = HEADERS["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
