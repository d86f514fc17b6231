"""One model of each compiled family, and checkpoints with a new checksum."""

from collections.abc import Callable
from hashlib import blake2b
from typing import Any

from river import forest, tree

from tests.support import adaptive_trees, forests, trees

MODELS: dict[str, Callable[[], Any]] = {
    "tree": lambda: tree.HoeffdingTreeClassifier(**trees.EAGER),
    "adaptive": lambda: adaptive_trees.adaptive_tree(adaptive_trees.RESTLESS),
    "forest": lambda: forest.ARFClassifier(**forests.RESTLESS),
}


# --- Damage -----------------------------------------------------------------------------------------------------------
def resealed(data: bytes) -> bytes:
    """Return a frame whose checksum is that of its content."""
    return data[:8] + blake2b(data[24:], digest_size=16).digest() + data[24:]
