"""The contract and the pipeline declare the same methods."""

import pytest

from glasstream.app.configuration import load
from glasstream.explain.registry import ALL, REGISTRY
from glasstream_topics import methods

SETTINGS = load(assignments=[f"explain.methods={','.join(methods.METHODS)}"])


def test_every_method_of_the_contract_is_in_the_registry_in_its_order() -> None:
    assert list(REGISTRY) == list(methods.METHODS) == list(SETTINGS.explain.names)
    assert {method.name for method in ALL} == set(methods.METHODS)


@pytest.mark.parametrize("name", methods.METHODS)
def test_a_method_has_its_name_everywhere(name: str) -> None:
    method = methods.METHODS[name]
    arrays = [*method.draws, *method.values]
    assert name in method.values and method.draws
    assert {methods.method_of(array) for array in arrays} == {name}
    aggregator = REGISTRY[name].aggregator(SETTINGS)
    assert (aggregator.name, aggregator.count) == (name, 0)
