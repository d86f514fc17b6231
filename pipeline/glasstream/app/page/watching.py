"""How a stream is watched for incidents, for the page."""

from typing import Any, Final

from glasstream_topics.watching import SIZES, STATES, Watching

MOST: Final = 40
"""Largest number of features to show."""

_LAST: Final = ("watched", "calibrating", "silent")
"""States that need no attention."""


def watching_part(record: Watching) -> dict[str, Any]:
    """Return the message part for a record: the labels and up to `MOST` features, those that need attention first."""
    names = sorted(record.features, key=lambda name: (record.features[name].state in _LAST, name))[:MOST]
    labels = [] if record.label is None else [(None, record.label)]
    return {
        "row": record.row,
        "left_out": len(record.features) - len(names),
        "note": SIZES,
        "series": [
            {
                "feature": name,
                "state": one.state,
                "title": STATES.get(one.state, ""),
                "known": one.known,
                "bins": one.bins,
                "block": one.block,
                "detectable": {str(size.rows): size.text for size in one.detectable},
            }
            for name, one in [*labels, *((name, record.features[name]) for name in names)]
        ],
    }
