"""Keeps secrets out of the log, and effects of texts in it: debug logs of clients may contain passwords.

Messages contain names of streams, features and classes, which come from events. A name must not begin a line that looks
like one of the log, or reach the terminal as a control sequence.
"""

import logging
import re
from collections.abc import Iterable, Mapping

from glasstream.base.printable import printable
from glasstream.models.codec.authentication import Key

_SECRET = ("password", "secret", "oauthbearer.config", "ssl.key.pem")


def secrets_of(kafka: Mapping[str, str], key: Key | None) -> list[str]:
    """Return the secrets among a client's settings and the keys that seal pickles."""
    found = [value for name, value in kafka.items() if any(word in name for word in _SECRET)]
    keys = (key,) if isinstance(key, bytes) else key or ()
    found += [one.decode(errors="replace") for one in keys]
    return [secret for secret in found if secret]


def secrets_of_webhook(address: str | None, keys: Iterable[bytes] | None) -> list[str]:
    """Return what must not be shown of a webhook: its keys, and its address without scheme and host."""
    found = [key.decode(errors="replace") for key in keys or ()]
    host, rest = re.findall(r"^(?:[^:/?#]*://)?([^/?#]*)(.*)$", address or "", re.DOTALL)[0]
    return [secret for secret in (*found, host.rpartition("@")[0], rest if rest.strip("/") else "") if secret]


class RedactingFormatter(logging.Formatter):
    """Formatter of messages on one line, in which control characters have no effect.

    It replaces secrets by stars, both as they are and as Python prints them.
    """

    def __init__(self, text: str, dates: str | None = None, secrets: Iterable[str] = ()) -> None:
        super().__init__(text, dates)
        forms = {form for secret in secrets for form in (secret, repr(secret)[1:-1], repr(secret.encode())[2:-1])}
        self._forms = sorted(forms, key=len, reverse=True)

    def formatMessage(self, record: logging.LogRecord) -> str:  # a method of the base
        """Return the message on one line."""
        record.message = record.message.replace("\n", "\\n").replace("\r", "\\r")
        return super().formatMessage(record)

    def format(self, record: logging.LogRecord) -> str:
        """Return the formatted line without secrets and control characters. A traceback has lines of its own."""
        line = super().format(record)
        for form in self._forms:
            line = line.replace(form, "***")
        return printable(line)
