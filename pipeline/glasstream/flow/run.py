"""Run of messages of one stream: their events and labels in order, and which message each of them is from."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import chain, islice, takewhile

from glasstream.events.admission import Accepted, Admission
from glasstream.events.decode import Decoded, Rejected, decode, decode_one, decode_together
from glasstream.events.message import Message, Oversized, Position
from glasstream.events.waiting import Joined, Kept, Waiting
from glasstream.flow.identity import event_id
from glasstream_topics.events import Event
from glasstream_topics.events_dead import Reason
from glasstream_topics.labels import Label

Form = tuple[object, ...]
"""Names and types of the values of an event's features, in their order."""


class Run:
    """Events and labels of consecutive messages of one stream.

    Which event a label belongs to depends on the events and labels before it. Each element is therefore admitted when
    its turn comes.

    Parameters
    ----------
    message, decoded
        The first message, and what it contains.
    used
        Number of its events and labels that were processed before.
    """

    def __init__(self, message: Message, decoded: Decoded, used: int = 0) -> None:
        self.messages = [message]
        self.elements: list[Event | Label] = [element for _, element in decoded.events]
        self.place = used
        """Number of elements that were processed."""
        self.labels = decoded.labels
        """Whether any element is a label."""
        self.form: Form | None = None
        """The form of every event, if all have the same one."""
        self.rejected: dict[int, list[Rejected]] = {0: decoded.rejected} if decoded.rejected else {}
        """Elements that were rejected on decoding, by the number of their message."""
        self._indexes = [index for index, _ in decoded.events]
        self._arrays = {0} if decoded.array else set()
        self._ends = [len(self.elements)]
        """Number of elements up to the end of each message."""

    def __len__(self) -> int:
        return len(self.elements) - self.place

    def extend(self, messages: Sequence[Message], begin: int, limit: int) -> None:
        """Add the messages from `begin` on, up to one of another stream or with a mark.

        Parameters
        ----------
        limit
            Largest size of a message in bytes.
        """
        key, elements, indexes, ends = self.messages[0].key, self.elements, self._indexes, self._ends
        alike = [*takewhile(lambda one: one.key == key and type(one.value) is bytes, islice(messages, begin, None))]
        together = decode_together([one.value for one in alike if one.value is not None], limit)
        if together is not None:
            first = len(elements) + 1
            elements += together
            indexes += [0] * len(together)
            ends += range(first, first + len(together))
            self.labels |= Label in {*map(type, together)}
            self.messages += alike
            begin += len(alike)
        for place in range(begin, len(messages)):
            message = messages[place]
            value = message.value
            if message.key != key or isinstance(value, Oversized):
                break
            one = decode_one(value, limit)
            if one is not None:
                elements.append(one)
                indexes.append(0)
                if type(one) is Label:
                    self.labels = True
            else:
                decoded = decode(value, limit)
                if decoded.is_mark:
                    break
                number = len(ends)
                elements += [element for _, element in decoded.events]
                indexes += [index for index, _ in decoded.events]
                self.labels |= decoded.labels
                if decoded.rejected:
                    self.rejected[number] = decoded.rejected
                if decoded.array:
                    self._arrays.add(number)
            self.messages.append(message)
            ends.append(len(elements))

    def find_form(self) -> None:
        """Find out whether all events have one form. This costs less than to look at each event by itself."""
        events = [one.x for one in self.elements if type(one) is Event] if self.labels else [
            one.x for one in self.elements  # type: ignore[union-attr]  # there is no label
        ]  # fmt: skip
        if not events:
            return
        names, count = [*events[0]], len(events)
        if list(chain.from_iterable(events)) == names * count:
            types = [*map(type, chain.from_iterable(map(dict.values, events)))]
            first = types[: len(names)]
            if types == first * count:
                self.form = (*names, *first)

    def message_of(self, place: int) -> int:
        """Return the number of the message of an element; after the last one, the number of messages."""
        return bisect_right(self._ends, place)

    def begin_of(self, number: int) -> int:
        """Return the number of elements before a message."""
        return self._ends[number - 1] if number else 0

    def position(self) -> Position:
        """Return the position behind the processed elements."""
        number = self.message_of(self.place)
        if number == len(self.messages):
            return Position(self.messages[-1].offset + 1, 0)
        return Position(self.messages[number].offset, self.place - self.begin_of(number))

    def index(self, number: int, place: int) -> int | None:
        """Return the index of an element in its message, the number of which is given; None without an array."""
        return self._indexes[place] if number in self._arrays else None

    def before(self, position: Position) -> int:
        """Return how many elements lie before a position."""
        for number, message in enumerate(self.messages):
            if message.offset >= position.offset:
                used = position.used if message.offset == position.offset else 0
                return min(self.begin_of(number) + used, self._ends[number])
        return len(self.elements)

    def id_of(self, place: int) -> str:
        """Return the id of an element."""
        given = self.elements[place].id
        return event_id(given, self.messages[self.message_of(place)], self._indexes[place])

    def first(
        self, waiting: Waiting[Kept], admission: Admission
    ) -> tuple[Accepted | Joined[Kept] | tuple[Reason, str], str]:
        """Admit the next element, and return the outcome and the id."""
        element = self.elements[self.place]
        if isinstance(element, Label):
            return waiting.find(element, admission), str(element.id)
        return admission.admit(element), self.id_of(self.place)
