"""A secret is not written, in whatever form Python prints it."""

import logging
import re

import pytest

from glasstream.base.printable import printable
from glasstream.kafka.transport.redact import RedactingFormatter, secrets_of
from tests.support.paths import SOURCE


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


@pytest.mark.parametrize(
    "name", ["a\n12:00:00 ERROR learner: all is lost", "a\r\nb", "\x1b[2J\x07", "\u2028b", "\u202egnp"]
)
def test_a_name_stays_on_its_line_and_has_no_effect(name: str) -> None:
    formatter = RedactingFormatter("%(levelname)s %(message)s")
    line = formatter.format(logging.LogRecord("x", logging.INFO, "", 0, "stream %s begins", (name,), None))
    assert len(line.splitlines()) == 1 and line.startswith("INFO stream ") and line.endswith(" begins")
    assert printable(line) == line


def test_every_log_of_a_program_has_this_formatter() -> None:
    made = [path for path in SOURCE.rglob("*.py") if re.search(r"basicConfig\(", path.read_text(encoding="utf-8"))]
    assert made and all("RedactingFormatter(" in path.read_text(encoding="utf-8") for path in made)


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
