"""`glasstream topics ...` against a broker."""

from confluent_kafka.admin import AdminClient
from rich.table import Table

from pipeline.settings import Settings
from topics import admin


def _client(settings: Settings) -> AdminClient:
    return AdminClient({"log_level": 2, **settings.kafka, "bootstrap.servers": settings.broker})


def create(settings: Settings) -> list[str]:
    """Make the missing topics; a line for each, made or there already."""
    contract = (settings.partitions, settings.prefix, settings.topic_overrides)
    made = admin.create(_client(settings), *contract, replication=settings.topics.replication)
    return [f"{one.name}: {'created' if one.name in made else 'is there'}" for one in admin.show(*contract)]


def verify(settings: Settings) -> list[str]:
    """A line for each deviation from the contract."""
    contract = (settings.partitions, settings.prefix, settings.topic_overrides)
    return [str(finding) for finding in admin.verify(_client(settings), *contract)]


def show(settings: Settings) -> Table:
    """The contracts as a table."""
    table = Table(show_lines=True)
    for column in ("topic", "holds", "key; partition", "partitions", "read by", "schema", "configuration"):
        table.add_column(column)
    for one in admin.show(settings.partitions, settings.prefix, settings.topic_overrides):
        contract = one.topic
        version = "" if contract.schema_version is None else f"v{contract.schema_version}"
        table.add_row(
            one.name + ("" if contract.public else " (internal)"),
            contract.holds,
            f"{contract.key}; {contract.partitioning}",
            str(one.partitions),
            ", ".join(contract.read_by),
            f"{contract.codec} {version}",
            "\n".join(f"{name}={value}" for name, value in sorted(one.config.items())),
        )
    return table
