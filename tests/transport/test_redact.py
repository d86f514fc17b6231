"""A secret is not written, in whatever form Python prints it."""

import logging

import pytest

from glasstream.transport.redact import RedactingFormatter, secrets_of


@pytest.mark.parametrize("secret", ["hunter2-hunter2", "quo\"te's", "back\\slash", "ümläut", "tab\there"])
def test_no_form_of_a_secret_is_written(secret: str) -> None:
    formatter = RedactingFormatter("%(levelname)s %(message)s", "%H", [secret])
    said = (secret, {"password": secret}, secret.encode(), f"\0user\0{secret}".encode())
    line = formatter.format(logging.LogRecord("x", logging.DEBUG, "", 0, "%s %r %r %r", said, None))
    assert line.startswith("DEBUG *** {'password': ") and line.count("***") == 4
    assert secret not in line


def test_an_exception_is_no_way_out() -> None:
    formatter = RedactingFormatter("%(message)s", "%H", ["hunter2"])
    try:
        raise ValueError("hunter2")
    except ValueError as error:
        record = logging.LogRecord("x", logging.ERROR, "", 0, "failed", (), (ValueError, error, error.__traceback__))
    line = formatter.format(record)
    assert "ValueError: ***" in line and "hunter2" not in line


def test_what_counts_as_a_secret() -> None:
    kafka = {
        "sasl.username": "me",
        "sasl.password": "a",
        "ssl.key.password": "b",
        "sasl.oauthbearer.client.secret": "c",
    }
    assert secrets_of(kafka, b"key") == ["a", "b", "c", "key"]
    assert secrets_of({}, (b"new key", b"old key")) == ["new key", "old key"]
    assert secrets_of({"sasl.password": ""}, None) == []
