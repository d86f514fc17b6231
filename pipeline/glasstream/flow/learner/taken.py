"""Events and late labels that a model predicts and learns in one call: which of a run fit into columns."""

from collections.abc import Sequence
from typing import NamedTuple

from glasstream.events.admission import Admission
from glasstream.events.features import KeptFeatures
from glasstream.events.waiting import Joined, size_of
from glasstream.flow.learner.make_model import Model
from glasstream.flow.learner.state import LearnerState
from glasstream.flow.learner.unlabelled import CLASS_BYTES, Unlabelled
from glasstream.flow.run import Run
from glasstream_topics.events import Event
from glasstream_topics.frames import Array


class Taken(NamedTuple):
    """Events and late labels, one for each place."""

    elements: Sequence[Event | Joined[Unlabelled]]
    ids: Sequence[str | None]
    """The id of each event, None for a late label."""
    targets: Sequence[str | float | None]
    times: Sequence[int | None]
    late: Sequence[int]
    """Places of the late labels."""
    first: int
    """`seq` of the first event."""
    rows: Array
    """float64[elements, features]"""
    order: Sequence[int]
    """Slots of the features, in the order in which the events name them."""
    as_rows: bool
    """Whether the learner keeps the row of an event that waits for its label, and not the event itself."""


def take(run: Run, most: int, room: int, admission: Admission, model: Model, state: LearnerState) -> Taken | None:
    """Return the next events and late labels of a run that fit into a block; None if the next one does not.

    The block ends before an element that does not fit: an event with a new feature or class, or with its features in
    another order, or one that is rejected. It also ends before a label of one of its events, which does not wait yet
    (an older event with the same id may wait, and would get the label).

    Parameters
    ----------
    most, room
        Largest number of elements, and of those with a label.
    admission
        Admits the elements.
    """
    table, waiting, classes = state.features, state.waiting, model.classes
    known, is_text, elements, first = admission.classes, admission.target_kind is str, run.elements, run.place
    block = table.block()
    add = block.values.append if run.form is not None and model.learns and block.direct(run.form) else None
    labels, new_ids = run.labels, set[str]()
    taken, targets, late = list[Event | Joined[Unlabelled]](), list[str | float | None](), list[int]()
    ids, times = list[str | None](), list[int | None]()
    to_keep = 0
    """Most bytes that the events of the block add to those that wait: they wait when the block has been learned."""
    seq = begin = admission.seq
    for place in range(first, min(first + most, len(elements))):
        element = elements[place]
        target: str | float | None
        if not isinstance(element, Event):
            event_id = str(element.id)
            if event_id in new_ids:
                break
            admission.seq = seq
            joined = waiting.find(element, admission)
            if not isinstance(joined, Joined) or not waiting.has_room(to_keep):
                break
            _, kept, target = joined
            if isinstance(target, str) and target not in classes:
                break
            if not model.learns and model.refuses(table.again(kept.x)) is not None:
                break
            if not block.add_kept(kept.x):
                break
            waiting.settle(event_id)
            late.append(len(taken))
            taken.append(joined)
            ids.append(None)
            times.append(kept.ts)
        else:
            y, given = element.y, element.id
            if y is None:
                target = None
            elif is_text and type(y) is str and y in known:
                target = y
            elif (target := admission.known(y)) is None:
                break
            if type(target) is str and target not in classes:
                break
            if add is not None:
                add(element.x.values())
            elif (not model.learns and model.refuses(element.x) is not None) or not block.add(element.x):
                break
            if given is None:
                ids.append(run.id_of(place))
            else:
                event_id = given if type(given) is str else str(given)
                ids.append(event_id)
                if labels:
                    new_ids.add(event_id)
                    to_keep += size_of(event_id, None)
                    if target is None:
                        to_keep += KeptFeatures.most(len(element.x)) + CLASS_BYTES * len(classes)
            seq += 1
            taken.append(element)
            times.append(element.ts)
        targets.append(target)
        if target is not None:
            room -= 1
            if room <= 0:
                break
    admission.seq = seq
    if not taken:
        return None
    return Taken(taken, ids, targets, times, late, begin, block.rows(), block.order(), as_rows=add is not None)
