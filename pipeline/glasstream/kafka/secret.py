"""Secrets come from a variable, or from the file that a second one names, by one rule."""

import os
from collections.abc import Mapping
from pathlib import Path

from glasstream.base.errors import SettingsError
from glasstream.models.codec.authentication import KEY_BYTES

FILE = "_FILE"
"""Ends the name of the variable that names a file."""


def secret(environment: Mapping[str, str], name: str) -> str | None:
    """What the variable `name` holds, or the file that `name` with ``_FILE`` names, without white space around it.

    None if neither is set; an empty variable counts as not set.

    Raises
    ------
    SettingsError
        Both are set; or the file cannot be read, or holds nothing.
    """
    given, path = environment.get(name, "").strip(), environment.get(name + FILE, "")
    if given and path:
        raise SettingsError([f"{name} and {name}{FILE} are both set; unset one of them"])
    if not path:
        return given or None
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        reason = "it is no text" if isinstance(error, UnicodeDecodeError) else error.strerror
        if isinstance(error, PermissionError):
            mine = os.geteuid()
            reason = f"{reason}; this process has user id {mine}: `chown {mine} {path}` and `chmod 600 {path}`"
        raise SettingsError([f"{name}{FILE}: {path} cannot be read: {reason}"]) from error
    if not text:
        raise SettingsError([f"{name}{FILE}: expected a secret in {path}, got an empty file"])
    return text


def hmac_key(environment: Mapping[str, str]) -> tuple[bytes, ...] | None:
    """Return the keys that authenticate saved state: ``GLASSTREAM_HMAC_KEY``, in lines or separated by commas.

    The first key signs, all of them verify.

    Raises
    ------
    SettingsError
        The secret cannot be read, or a key is too short to protect anything.
    """
    return _keys(environment, "GLASSTREAM_HMAC_KEY")


def notify_keys(environment: Mapping[str, str]) -> tuple[bytes, ...] | None:
    """Return the keys that sign requests to the webhook: the secret ``GLASSTREAM_NOTIFY_KEY``, as in `hmac_key`.

    Each request has a signature under each key.

    Raises
    ------
    SettingsError
        The secret cannot be read, or a key is too short to protect anything.
    """
    return _keys(environment, "GLASSTREAM_NOTIFY_KEY")


def _keys(environment: Mapping[str, str], name: str) -> tuple[bytes, ...] | None:
    text = secret(environment, name)
    if text is None:
        return None
    keys = tuple(key.strip().encode() for key in text.replace(",", "\n").splitlines() if key.strip())
    if not keys or min(map(len, keys)) < KEY_BYTES:
        raise SettingsError(
            [
                f"{name}: expected at least {KEY_BYTES} bytes in each key, got fewer; `openssl rand -hex 32` prints a "
                "good key. Separate several keys by commas or line ends"
            ]
        )
    return keys


def page_token(environment: Mapping[str, str]) -> str | None:
    """Return the token of the page: the secret ``GLASSTREAM_PAGE_TOKEN``.

    Raises
    ------
    SettingsError
        The secret cannot be read.
    """
    return secret(environment, "GLASSTREAM_PAGE_TOKEN")


def notify_url(environment: Mapping[str, str]) -> str | None:
    """Return the address of the webhook for incidents: the secret ``GLASSTREAM_NOTIFY_URL``.

    Raises
    ------
    SettingsError
        The secret cannot be read.
    """
    return secret(environment, "GLASSTREAM_NOTIFY_URL")


def registry_login(environment: Mapping[str, str]) -> str | None:
    """Return the login for the schema registry: the secret ``GLASSTREAM_REGISTRY_LOGIN``, as ``user:password``.

    Raises
    ------
    SettingsError
        The secret cannot be read, or has another form.
    """
    text = secret(environment, "GLASSTREAM_REGISTRY_LOGIN")
    if text is not None and not all(text.partition(":")):
        raise SettingsError(["GLASSTREAM_REGISTRY_LOGIN: expected user:password, got another form"])
    return text
