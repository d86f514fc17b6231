"""What of earlier rows is kept and drawn, and within which bounds."""

from dataclasses import dataclass

from glasstream.background.grids import GridSettings
from glasstream.errors import SettingsError


@dataclass(frozen=True, slots=True)
class StorageSettings:
    """Bounds of what conditional removal keeps.

    Parameters
    ----------
    size
        Values that one leaf holds once full.
    depth
        Branches on the longest way through a tree; 1 to 20.
    values
        Values that all leaves of all trees hold together, at most; whole leaves of `size`.
    marginal
        Rows of the marginal reservoir.
    categories
        Codes of a text feature that trees tell apart. Their cost of a split grows with its cube.

    Raises
    ------
    SettingsError
        One of them is out of its range.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class BackgroundSettings:
    """What is kept and drawn. See `glasstream.settings` for meaning and defaults.

    Attributes
    ----------
    methods
        Of `glasstream_topics.methods.METHODS`.
    start
        t0, the first row that is explained.
    draws
        iPFI: background rows drawn for each feature.
    inner, fresh
        iSAGE: background rows drawn for a row, and whether anew for each of its steps.
    storage
        iSAGE: removal is conditional, by storage trees; None: marginal, from the reservoir.
    grid
        iPDP.
    """

    methods: tuple[str, ...]
    sampling: str
    reservoir: int
    start: int
    draws: int
    inner: int
    fresh: bool
    storage: StorageSettings | None
    grid: GridSettings
