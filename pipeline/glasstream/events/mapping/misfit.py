"""The reason why a message, or a document in it, becomes no event."""

from glasstream_topics.events_dead import Reason


class Misfit(Exception):
    """A message or a document that cannot become an event.

    Parameters
    ----------
    reason
        Code of the dead letter.
    detail
        What was expected, what came, and in which field.
    """

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


def shown(value: object) -> str:
    """Return a value as an error shows it, cut to a readable length.

    >>> shown("n/a"), shown(b"x" * 100)[-5:]
    ("'n/a'", 'xxxx…')
    """
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:79]}…"
