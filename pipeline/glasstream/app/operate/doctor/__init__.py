"""Checks of a deployment, one module for each part of it, ordered so that causes come before their consequences."""

from collections.abc import Iterator

from confluent_kafka import KafkaException

from glasstream.app.brokers.choose import addresses
from glasstream.app.operate.doctor import cluster, layout, machine, schemas
from glasstream.app.operate.doctor.finding import Check, DoctorContext, Finding, Level, fail
from glasstream.app.operate.doctor.progress import progress
from glasstream.base.errors import BrokerError, GlasstreamError

_HERE: tuple[Check, ...] = (machine.packages, machine.usable, machine.secrets, schemas.registered)
_THERE: tuple[Check, ...] = (cluster.kind, cluster.clock, layout.contracts, layout.copies, layout.retention, progress)


def examine(context: DoctorContext) -> Iterator[Finding]:
    """Yield the findings of all checks. Skip the checks that need a broker if none answers."""
    for check in _HERE:
        yield from check(context)
    try:
        addresses(context.settings.broker)
    except BrokerError:
        what = f"expected HOST:PORT,... of a running Kafka, got {context.settings.broker!r}"
        yield fail("broker", what, "give --broker, or set GLASSTREAM_BROKER")
        return
    found = cluster.answers(context)
    yield from found
    if any(one.level is Level.FAIL for one in found):
        return
    for check in _THERE:
        yield from _tried(check, context)


def _tried(check: Check, context: DoctorContext) -> list[Finding]:
    """Run a check, and return a finding if the broker fails in the middle of it."""
    try:
        return check(context)
    except (GlasstreamError, KafkaException) as error:
        what = error.args[0].str() if isinstance(error, KafkaException) else str(error)
        return [fail(check.__name__, what, "see the earlier findings and the broker log")]
