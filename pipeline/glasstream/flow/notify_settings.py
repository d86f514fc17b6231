"""The section `notify` of the settings."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from glasstream.base.changes import ChangesNothing
from glasstream_topics.incidents import STATUSES, VERDICTS


def _some(names: tuple[str, ...]) -> Meta:
    """Return a constraint that allows some of these names, separated by commas."""
    either = f"({'|'.join(names)})"
    return Meta(
        pattern=f"^{either}(,{either})*$", description=f"one or more of {', '.join(names)}, separated by commas"
    )


class NotifySettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the notifier posts to a webhook, and how often it tries.

    Its address and the key of its signatures are not settings: set ``GLASSTREAM_NOTIFY_URL`` and
    ``GLASSTREAM_NOTIFY_KEY``, or ``GLASSTREAM_NOTIFY_URL_FILE`` and ``GLASSTREAM_NOTIFY_KEY_FILE``.

    Attributes
    ----------
    form
        Body of a request. ``json`` contains all fields of the record, ``id``, ``text`` and ``link``; ``slack`` contains
        only ``text``, in the markup of Slack.
    statuses
        Statuses of the records to post, separated by commas. A record of a changed verdict has the status ``open``. If
        unset, records of all statuses are posted.
    verdicts
        Verdicts of the records to post, separated by commas. Each record of an incident is judged by its own verdict.
        If unset, records of all verdicts are posted.
    page
        Address of the live page, such as ``https://glasstream.example.org/``. If set, each request contains a link to
        the stream of the incident.
    start
        Where a consumer group without committed offsets begins: ``latest`` posts only incidents that are published
        after the first start; ``earliest`` posts all that the topic keeps.
    timeout_seconds
        Time after which a request without an answer counts as failed.
    first_seconds
        Longest pause after the first failure. The bound doubles with each failure, and each pause is drawn uniformly
        between 0 and its bound.
    longest_seconds
        Upper bound of every pause, even if an answer requests a longer one in ``Retry-After``.
    attempts
        Number of requests that the webhook may refuse (3xx, or 4xx other than 408, 425 and 429) until the incident is
        skipped. Requests that fail for any other reason are repeated without limit.
    """

    form: ChangesNothing[Literal["json", "slack"]] = "json"
    statuses: ChangesNothing[Annotated[str, _some(tuple(STATUSES))] | None] = None
    verdicts: ChangesNothing[Annotated[str, _some(tuple(VERDICTS))] | None] = None
    page: ChangesNothing[
        Annotated[str, Meta(pattern=r"^https?://[^\s<>|#]+$", description="an http or https address without #")] | None
    ] = None
    start: ChangesNothing[Literal["latest", "earliest"]] = "latest"
    timeout_seconds: ChangesNothing[Annotated[float, Meta(gt=0, le=300)]] = 10.0
    first_seconds: ChangesNothing[Annotated[float, Meta(gt=0, le=300)]] = 1.0
    longest_seconds: ChangesNothing[Annotated[float, Meta(gt=0, le=300)]] = 300.0
    attempts: ChangesNothing[Annotated[int, Meta(ge=1)]] = 8

    def wants(self, status: str, verdict: str) -> bool:
        """Return whether a record with this status and this verdict is posted."""
        return all(
            chosen is None or value in chosen.split(",")
            for chosen, value in ((self.statuses, status), (self.verdicts, verdict))
        )

    def longest_pause(self, failures: int) -> float:
        """Return the bound of the pause after so many failures in a row, in seconds."""
        return min(self.longest_seconds, self.first_seconds * 2.0 ** min(failures - 1, 64))
