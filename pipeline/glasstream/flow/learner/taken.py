"""Events and late labels that a model predicts and learns in one call: which of a run fit into columns."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from glasstream.events.admission import Admission
from glasstream.events.decode import ID_BYTES
from glasstream.events.features import KeptFeatures
from glasstream.events.waiting import Joined, size_of
from glasstream.flow.learner.make_model import Model
from glasstream.flow.learner.state import LearnerState
from glasstream.flow.learner.unlabelled import CLASS_BYTES, Unlabelled
from glasstream.flow.run import Run
from glasstream_topics.events import Event
from glasstream_topics.frames import Array
from glasstream_topics.labels import Label

_EVENT_BYTES: Final = size_of("0" * ID_BYTES, None)
"""Most bytes that an event takes while it waits, without what is kept of it."""


class Taken(NamedTuple):
    """Events and late labels, one for each place."""

    elements: Sequence[Event | Label]
    ids: Sequence[str | None]
    """The id of each event, None for a late label."""
    seqs: Sequence[int]
    """`seq` of each event, and of the event of each late label."""
    targets: Sequence[str | float | None]
    times: Sequence[int | None]
    late: dict[int, Unlabelled]
    """Kept events of the late labels, by the places of the labels, in ascending order."""
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
    learns, width, block = model.learns, len(table), table.block()
    add = block.values.append if run.form is not None and learns and block.direct(run.form) else None
    labels, new_ids = run.labels, set[str]()
    codes = 0 if state.groups is None else len(state.groups.attributes)
    kept_bytes = _EVENT_BYTES + KeptFeatures.most(width) + CLASS_BYTES * len(classes) + codes
    targets, late = list[str | float | None](), dict[int, Unlabelled]()
    ids, seqs, times = list[str | None](), list[int](), list[int | None]()
    seq = admission.seq
    for place, element in enumerate(elements[first : first + most]):
        y, given = element.y, element.id
        target: str | float | None
        if isinstance(element, Label):
            event_id = given if type(given) is str else str(given)
            if event_id in new_ids:
                break
            admission.seq = seq
            joined = waiting.find(element, admission)
            # The events of the block wait when it has been learned; none may be forgotten for them before the label.
            if not isinstance(joined, Joined) or not waiting.has_room(kept_bytes * len(new_ids)):
                break
            kept, target = joined.kept, joined.target
            if type(target) is str and target not in classes:
                break
            x = kept.x
            if add is not None and x.slots is None and len(x.values) == width:
                add(x.values)
            elif (not learns and model.refuses(table.again(x)) is not None) or not block.add_kept(x):
                break
            waiting.settle(event_id)
            late[place] = kept
            ids.append(None)
            seqs.append(joined.seq)
            times.append(kept.ts)
        else:
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
            elif (not learns and model.refuses(element.x) is not None) or not block.add(element.x):
                break
            if given is None:
                ids.append(run.id_of(first + place))
            else:
                event_id = given if type(given) is str else str(given)
                ids.append(event_id)
                if labels:
                    new_ids.add(event_id)
            seqs.append(seq)
            times.append(element.ts)
            seq += 1
        targets.append(target)
        if target is not None:
            room -= 1
            if room <= 0:
                break
    admission.seq = seq
    if not targets:
        return None
    taken = elements[first : first + len(targets)]
    return Taken(taken, ids, seqs, targets, times, late, block.rows(), block.order(), as_rows=add is not None)
