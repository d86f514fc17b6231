"""Check of the seals on the states of aggregator and novelty detector."""

from collections.abc import Mapping

from glasstream.app.operate.doctor.finding import Finding, fail, ok
from glasstream.app.operate.topic_reader import Partition
from glasstream.base.errors import FrameError, RecordError, StateError
from glasstream.flow.settings import Settings
from glasstream.kafka.stages.names import topic
from glasstream.kafka.stages.seals import AGGREGATOR, NOVELTY, Seals, named_by_aggregator, named_by_novelty
from glasstream.models.codec.authentication import Key
from glasstream_topics import progress_aggregator, progress_novelty


def sealed_states(settings: Settings, key: Key, values: Mapping[Partition, Mapping[bytes, bytes]]) -> list[Finding]:
    """Check that aggregator and novelty detector can open the states that a restart finds; nothing is restored."""
    older: list[str] = []
    for kind, module in ((AGGREGATOR, progress_aggregator), (NOVELTY, progress_novelty)):
        name = topic(settings, module.TOPIC.name)
        for partition in range(settings.topics.events):
            where = f"{name}[{partition}]"
            try:
                seals = _open_states(where, kind, key, values.get((name, partition), {}))
            except RecordError:
                continue  # the check of the state reports it
            except (FrameError, StateError) as error:
                do = "give all stages the key that sealed the state; ops/docs/security.md tells how to add or change it"
                return [fail("hmac key", str(error), do)]
            older += sorted(seals)
    if not older:
        return []
    what = f"the states of {len(older)} streams, {older[0]!r} among them, are sealed with an older key"
    return [ok("hmac key", f"{what}: keep that key in the list until the stages have sealed them again")]


def _open_states(where: str, kind: str, key: Key, records: Mapping[bytes, bytes]) -> set[str]:
    """Open the states of a partition, and return the streams whose state an older key has sealed."""
    if kind == AGGREGATOR:
        aggregated = progress_aggregator.restore(records)
        if aggregated.partition is None:
            return set()
        seals = Seals(kind, key, aggregated.partition.fingerprint)
        for name, one in aggregated.streams.items():
            if one.epoch >= aggregated.partition.epoch:
                aggregated.state(name, seals.opening(where, name, **named_by_aggregator(one)))
        return seals.older
    watched = progress_novelty.restore(records)
    if watched.partition is None:
        return set()
    seals = Seals(kind, key, watched.partition.fingerprint)
    for name, own in watched.streams.items():
        if own.epoch >= watched.partition.epoch:
            watched.anchor(name, seals.opening(where, name, **named_by_novelty(own.epoch, own.anchor)))
    return seals.older
