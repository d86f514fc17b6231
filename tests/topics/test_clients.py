"""The remedies for messages that belong to no stream come from one table of clients."""

import pytest

from glasstream_topics.clients import CLIENTS, INTAKE, NO_KEY, WRONG_PARTITION, Client, table
from glasstream_topics.events import PARTITIONERS


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.short)
def test_a_client_needs_a_setting_unless_murmur2_is_its_default_and_the_remedy_names_it(client: Client) -> None:
    assert (client.default == "murmur2") != bool(client.setting)
    assert (f"{client.short}: {client.setting}" in WRONG_PARTITION["murmur2"]) == bool(client.setting)
    (row,) = (line for line in table() if line.startswith(f"| {client.name} |"))
    assert client.default in row and (client.setting or "none needed") in row


def test_each_partitioner_has_a_remedy_and_each_remedy_names_the_intake() -> None:
    assert WRONG_PARTITION.keys() == PARTITIONERS.keys()
    assert all(INTAKE in remedy for remedy in (*WRONG_PARTITION.values(), NO_KEY))
    assert 'intake.stream="=NAME"' in NO_KEY


@pytest.mark.parametrize("remedy", [*WRONG_PARTITION.values(), NO_KEY])
def test_a_remedy_is_short_enough_for_the_header_of_each_dead_letter(remedy: str) -> None:
    assert len(remedy) < 600
