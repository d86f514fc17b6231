"""The section `groups` of the settings."""

from typing import Annotated, Final

from msgspec import Meta, Struct

from glasstream.base.changes import ChangesExplanations, ChangesNothing
from glasstream.base.errors import SettingsError

MOST_ATTRIBUTES: Final = 8
_Positive = Annotated[int, Meta(ge=1)]


class GroupSettings(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How rows are grouped.

    Attributes
    ----------
    by
        Columns of `meta`, or features, by which labelled events are grouped, separated by commas; at most 8. If an
        event has both, the column of `meta` counts. If unset, there are no groups.
    window
        Number of newest rows of a stream that a record describes in addition to all rows.
    every
        Number of rows between two records of a stream.
    least
        Number of rows below which a mean or a rate is not published, but only the number of rows.
    budget
        Expected number of false alarms in 100,000 rows of a stream: groups that are said to be worse off than before,
        or to differ more, although they are not.
    """

    by: ChangesExplanations[str | None] = None
    window: ChangesExplanations[Annotated[int, Meta(ge=1, le=100_000)]] = 1_000
    every: ChangesNothing[_Positive] = 500
    least: ChangesExplanations[_Positive] = 30
    budget: ChangesExplanations[Annotated[float, Meta(gt=0, le=1_000)]] = 0.5

    def __post_init__(self) -> None:
        """Check the names of the attributes."""
        names = self.attributes
        if not all(names) or len({*names}) < len(names) or len(names) > MOST_ATTRIBUTES:
            raise SettingsError(
                [
                    f"groups.by: expected 1 to {MOST_ATTRIBUTES} different names of columns or features, separated by "
                    f"commas, got {self.by!r:.200}"
                ]
            )

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names by which rows are grouped."""
        return () if self.by is None else tuple(name.strip() for name in self.by.split(","))
