"""The request for one incident: its id, its body, and its signature."""

import hashlib
import hmac
from collections.abc import Iterable
from urllib.parse import quote

import msgspec

from glasstream.flow.notify_settings import NotifySettings
from glasstream_topics.incidents import STATUSES, VERDICTS, Incident, encode

_LONGEST_STREAM = 200
"""Characters of a stream's quoted name in an id. A longer name is replaced by its hash: servers refuse long headers."""


def identity(incident: Incident, topic: str) -> str:
    """Return the id of a record: the same at each delivery, another one for each other record and each other topic.

    It consists of printable ASCII, so that a header can hold it.
    """
    stream = quote(incident.stream, safe="")
    if len(stream) > _LONGEST_STREAM:
        stream = f"sha256:{hashlib.sha256(incident.stream.encode()).hexdigest()}"  # no quoted name contains a colon
    status = quote(incident.status, safe="")
    return f"{topic}/{incident.epoch}/{stream}/{incident.incident}/{status}/{incident.row}"


def body(incident: Incident, name: str, settings: NotifySettings) -> bytes:
    """Return the body of the request, as `notify.form` says. `name` is the id of the record."""
    link = None if settings.page is None else f"{settings.page}#stream={quote(incident.stream, safe='')}"
    text = _text(incident)
    if settings.form == "slack":
        text = _escaped(text)  # or names could mention people
        return msgspec.json.encode({"text": text if link is None else f"{text}\n<{_escaped(link)}|Open the page>"})
    own = {"id": name, "text": text, **({} if link is None else {"link": link})}
    return msgspec.json.encode({**own, **msgspec.json.decode(encode(incident))})


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _text(incident: Incident) -> str:
    status = STATUSES.get(incident.status, incident.status)
    verdict = VERDICTS.get(incident.verdict, incident.verdict)
    return f"Incident {incident.incident} of {incident.stream} {status} ({verdict}): {incident.with_suggestion()}"


def signature(keys: Iterable[bytes], body: bytes, time: int) -> str:
    """Return the signature of a body under each key, at a time in seconds since 1970."""
    signed = b"%d.%b" % (time, body)
    return ",".join([f"t={time}", *(f"v1={hmac.new(key, signed, hashlib.sha256).hexdigest()}" for key in keys)])
