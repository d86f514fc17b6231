"""The registry of explanation methods."""

from collections.abc import Mapping
from typing import Final

from glasstream.methods.ipdp import Ipdp
from glasstream.methods.ipfi import Ipfi
from glasstream.methods.isage import Isage
from glasstream.methods.method import Method
from glasstream_topics import methods

_ALL: Final = {method.name: method for method in (Ipfi(), Isage(), Ipdp())}

REGISTRY: Final[Mapping[str, Method]] = {name: _ALL[name] for name in methods.METHODS}
"""Methods by name, in the order in which their records are published."""
