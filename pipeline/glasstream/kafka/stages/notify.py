"""The notifier stage: posts each incident to a webhook, at least once. It has no state but its committed offsets.

An incident counts as processed when the webhook has accepted it, or has refused it `notify.attempts` times. Until then
the later incidents of its partition wait, so that those of a stream arrive in order. After a crash, the last incidents
are posted again, under the same ids.
"""

import asyncio
import logging
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass

from glasstream.base.sparse import logged
from glasstream.events.message import Message
from glasstream.flow.notify_settings import NotifySettings
from glasstream.kafka.health import catalogue
from glasstream.kafka.health.catalogue import Sample
from glasstream.kafka.stages.webhook import Answer, Webhook
from glasstream.kafka.stages.webhook_request import body, identity, signature
from glasstream.kafka.transport.lane import Lane
from glasstream.kafka.transport.records import ProducerRecord
from glasstream_topics import incidents
from glasstream_topics.errors import RecordError

log = logging.getLogger(__name__)

#: Remedy when incidents are lost before they were posted.
LOST_INCIDENTS = (
    "these incidents are not posted. Lengthen the retention of the topic and restart the notifier; it continues with "
    "the incidents that the broker still has"
)

_SAY_WAITING_SECONDS = 10.0


@dataclass(slots=True)
class _Wait:
    """The incident of a partition that is not delivered yet, since when, and why."""

    since: float
    detail: str


class Notifier:
    """Posts incidents.

    Parameters
    ----------
    settings
        Section `notify` of the settings.
    webhook
        Client of the webhook.
    keys
        Keys that sign requests; without keys, requests have no signature.
    clock
        Clock in seconds since 1970, for signatures.
    steady
        Monotonic clock in seconds, for how long an incident waits.
    sleep
        Function that waits for a number of seconds.
    chance
        Source of the pauses between attempts. No published number depends on it.
    """

    def __init__(
        self,
        settings: NotifySettings,
        webhook: Webhook,
        keys: tuple[bytes, ...] = (),
        *,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: random.Random | None = None,
    ) -> None:
        self.settings = settings
        self.damaged = 0
        """Number of messages that were not valid incidents."""
        self.skipped = 0
        """Number of incidents that the webhook refused for good."""
        self.posts: Counter[str] = Counter()
        """Number of requests by outcome."""
        self._webhook = webhook
        self._keys = keys
        self._clock = clock
        self._steady = steady
        self._sleep = sleep
        self._chance = chance or random.Random()
        self._waits: dict[int, _Wait] = {}

    async def handle(self, message: Message) -> list[ProducerRecord]:
        """Post one incident, and return when the webhook has accepted it or has refused it for good."""
        try:
            incident = incidents.decode(message.value if isinstance(message.value, bytes) else b"")
        except RecordError as error:
            self.damaged += 1
            if logged(self.damaged):
                log.error("skipping %s, which is not an incident: %s (%d so far)", message.place, error, self.damaged)
            return []
        if self.settings.wants(incident.status, incident.verdict):
            try:
                name = identity(incident, message.topic)
                await self._deliver(message, name, body(incident, name, self.settings))
            finally:
                self._waits.pop(message.partition, None)
        return []

    async def _deliver(self, message: Message, name: str, content: bytes) -> None:
        settings, place = self.settings, self._webhook.place
        await asyncio.sleep(0)  # the incident before this one is acknowledged first, so that a crash repeats only one
        failures = refusals = 0
        while True:
            headers = {"Idempotency-Key": name}
            if self._keys:
                headers["Glasstream-Signature"] = signature(self._keys, content, int(self._clock()))
            answer = await self._webhook.post(content, headers)
            self.posts[answer.outcome] += 1
            if answer.outcome == "ok":
                if failures:
                    log.info("%s: %s accepted incident %s at attempt %d", message.place, place, name, failures + 1)
                return
            failures += 1
            refusals += answer.outcome == "refused"
            if refusals == settings.attempts:
                self.skipped += 1
                log.error(
                    "%s: skipping incident %s, which %s refused %d times, at last with %s; check the address "
                    "(GLASSTREAM_NOTIFY_URL), notify.form and the receiver's log; the incident stays on the topic",
                    message.place, name, place, refusals, answer.detail,
                )  # fmt: skip
                return
            wait = self._waits.setdefault(message.partition, _Wait(self._steady(), answer.detail))
            wait.detail = answer.detail
            if failures == 1:
                log.warning(
                    "%s: incident %s was not delivered to %s: %s; trying again",
                    message.place, name, place, answer.detail,
                )  # fmt: skip
            await self._sleep(self._pause(failures, answer))

    def _pause(self, failures: int, answer: Answer) -> float:
        """Return the seconds until the next attempt: drawn below a growing bound, and not before the server allows."""
        drawn = self._chance.uniform(0.0, self.settings.longest_pause(failures))
        return max(drawn, min(answer.pause, self.settings.longest_seconds))

    def tell(self, lanes: Mapping[int, Lane]) -> None:
        """Set the reason why each lane's incident waits. The worker is not ready while one waits for long."""
        now = self._steady()
        for partition, lane in lanes.items():
            wait = self._waits.get(partition)
            lane.waits = None
            if wait is not None and now - wait.since >= _SAY_WAITING_SECONDS:
                lane.waits = (
                    f"{self._webhook.place} has not accepted an incident for {now - wait.since:.0f} s: {wait.detail}. "
                    "The worker tries again by itself; check the receiver, and GLASSTREAM_NOTIFY_URL"
                )

    def samples(self) -> Iterator[Sample]:
        """Yield the metrics of this worker."""
        yield Sample(catalogue.DAMAGED, self.damaged, ("",))
        for outcome in ("ok", "refused", "failed"):
            yield Sample(catalogue.POSTS, self.posts[outcome], (outcome,))
        yield Sample(catalogue.INCIDENTS_SKIPPED, self.skipped)
