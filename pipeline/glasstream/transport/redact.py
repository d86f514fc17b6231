"""Secrets stay out of the log, whoever writes there: aiokafka's debug log has the password in its request."""

import logging
from collections.abc import Iterable, Mapping

from glasstream.models.authentication import Key

_SECRET = ("password", "secret", "oauthbearer.config", "ssl.key.pem")


def secrets_of(kafka: Mapping[str, str], key: Key | None) -> list[str]:
    """What must not be written, of a client's settings and the keys that seal pickles."""
    found = [value for name, value in kafka.items() if any(word in name for word in _SECRET)]
    keys = (key,) if isinstance(key, bytes) else key or ()
    found += [one.decode(errors="replace") for one in keys]
    return [secret for secret in found if secret]


class RedactingFormatter(logging.Formatter):
    """Puts stars in the place of secrets, as they are and as Python would print them."""

    def __init__(self, text: str, dates: str, secrets: Iterable[str]) -> None:
        super().__init__(text, dates)
        forms = {form for secret in secrets for form in (secret, repr(secret)[1:-1], repr(secret.encode())[2:-1])}
        self._forms = sorted(forms, key=len, reverse=True)

    def format(self, record: logging.LogRecord) -> str:
        """The line, without secrets."""
        line = super().format(record)
        for form in self._forms:
            line = line.replace(form, "***")
        return line
