"""Settings of the storage trees."""

from dataclasses import dataclass

from glasstream.errors import SettingsError


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """Limits of the storage trees for conditional removal.

    Parameters
    ----------
    size
        Number of values that a full leaf holds.
    depth
        Largest number of branches from the root to a leaf, 1 to 20.
    values
        Largest number of values in all leaves of all trees. Leaves are allocated in units of `size`.
    marginal
        Number of rows in the marginal reservoir.
    categories
        Number of codes of a text feature that trees distinguish. The cost of a split grows with its cube.

    Raises
    ------
    SettingsError
        A setting is out of its range.
    """

    size: int = 100
    depth: int = 8
    values: int = 1_000_000
    marginal: int = 100
    categories: int = 32

    def __post_init__(self) -> None:
        bounds = {
            "size": (1, None),
            "depth": (1, 20),
            "values": (self.size, None),
            "marginal": (1, None),
            "categories": (1, None),
        }
        findings = []
        for name, (low, high) in bounds.items():
            value = getattr(self, name)
            if value < low or (high is not None and value > high):
                upper = "" if high is None else f" and at most {high}"
                findings.append(f"conditional removal: expected {name} to be at least {low}{upper}, got {value}")
        if findings:
            raise SettingsError(findings)
