"""The registry of explanation methods."""

from collections.abc import Mapping
from typing import Final

from glasstream.explain.attributions.method import Attributions
from glasstream.explain.method import Method
from glasstream.explain.pdp.method import Ipdp
from glasstream.explain.pfi import Ipfi
from glasstream.explain.sage.method import Isage
from glasstream_topics.methods import METHODS

ALL: Final[tuple[Method, ...]] = (Ipfi(), Isage(), Ipdp(), Attributions())

_ORDER: Final = list(METHODS)
REGISTRY: Final[Mapping[str, Method]] = {one.name: one for one in sorted(ALL, key=lambda one: _ORDER.index(one.name))}
"""Methods by name, in the order in which their records are published."""
