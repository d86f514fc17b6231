"""Create the topics of a deployment, compare them with their contracts, and describe the contracts."""

from confluent_kafka.admin import AdminClient

from glasstream.settings import Settings
from glasstream_topics import admin
from glasstream_topics.contract import SAFE_COPIES


def _client(settings: Settings) -> AdminClient:
    return AdminClient({"log_level": 2, **settings.kafka, "bootstrap.servers": settings.broker})


def create(settings: Settings) -> list[str]:
    """Create the missing topics. Return a line for each topic, and a warning for each with too few copies."""
    client = _client(settings)
    contract = (settings.partitions, settings.prefix, settings.topic_overrides)
    made = admin.create(client, *contract, replication=settings.topics.replication)
    lines = [f"{one.name}: {'created' if one.name in made else 'exists already'}" for one in admin.show(*contract)]
    return lines + [
        f"warning: {name}: expected {SAFE_COPIES} copies or more on a cluster of {SAFE_COPIES} brokers or more, found "
        f"{copies}: the loss of a broker stops writes or loses records. Set topics.replication={SAFE_COPIES} before "
        "you create topics; add copies to existing topics with kafka-reassign-partitions.sh"
        for name, copies in admin.scarce(client, settings.prefix).items()
    ]


def verify(settings: Settings) -> list[str]:
    """Return a line for each deviation from the contract."""
    contract = (settings.partitions, settings.prefix, settings.topic_overrides)
    replication = settings.topics.replication
    return [str(finding) for finding in admin.verify(_client(settings), *contract, replication=replication)]


def show(settings: Settings) -> list[str]:
    """Return the contracts as lines, one block per topic, not cut at any width."""
    lines: list[str] = []
    for one in admin.show(settings.partitions, settings.prefix, settings.topic_overrides):
        contract = one.topic
        config = [f"{name}={value}" for name, value in sorted(one.config.items())]
        version = "" if contract.schema_version is None else f" v{contract.schema_version}"
        facts = (
            ("holds", contract.holds),
            ("key", contract.key),
            ("partition", contract.partitioning),
            ("partitions", str(one.partitions)),
            ("read by", ", ".join(contract.read_by)),
            ("schema", f"{contract.codec}{version}"),
            *(("" if number else "settings", text) for number, text in enumerate(config)),
        )
        lines.append(one.name + ("" if contract.public else " (internal)"))
        lines += [f"  {name:<12}{value}" for name, value in facts]
    return lines
