"""The state from which a stream's learner resumes, as an object and as plain data.

Plain data are JSON values and arrays in a frame (`glasstream_topics.frames`). Reading them executes nothing. Everything
that settings determine is not written but recomputed, and everything that a kernel or the learner relies on is checked.
A state is plain if its model learns in compiled code, or is already trained, and no method keeps trees of River
(`isage.removal=conditional`).
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Final, Literal

import msgspec
import numpy as np

from glasstream.base.errors import ModelError
from glasstream.events.admission import Task, check_saved
from glasstream.events.decode import Rejected
from glasstream.events.features import FeatureCounts, FeatureTable, KeptFeatures, Kind
from glasstream.events.waiting import Waiting
from glasstream.explain.background import Background
from glasstream.explain.losses import loss_for, possible_tasks
from glasstream.flow.learner import groups as groups_of
from glasstream.flow.learner.entries import Entries
from glasstream.flow.learner.expected import ExpectedPerformance, Saved
from glasstream.flow.learner.groups import GroupState
from glasstream.flow.learner.make_model import fixed_model
from glasstream.flow.learner.pushed import PushedModels
from glasstream.flow.learner.state import NEVER, Count, LearnerState, Numbers
from glasstream.flow.learner.unlabelled import Unlabelled
from glasstream.flow.settings import Settings
from glasstream.models.codec import serialization
from glasstream.models.online import families
from glasstream.models.onnx.model import FixedModel
from glasstream.models.predictors.arrays import Array, require
from glasstream.models.predictors.predictor import Predictor
from glasstream.models.river.catalogue import takes_text
from glasstream.models.stream_model import StreamModel
from glasstream_topics import frames
from glasstream_topics.events import LARGEST
from glasstream_topics.events_dead import Reason

KIND: Final = "stream-state"
VERSION: Final = 2
_OF: Final = "state of a stream"
_Target = Literal["number", "boolean", "text"]
_TARGETS: Final[dict[_Target, type]] = {"number": float, "boolean": bool, "text": str}
_MODEL: Final = "model"
_BACKGROUND, _NEWEST, _WAITING, _GROUPS = "background/", "newest/", "waiting/", "groups/"
"""What the names of arrays begin with."""

_Texts = list[str]


@dataclass(frozen=True, slots=True)
class StreamState:
    """State from which a stream resumes.

    Attributes
    ----------
    task, target_kind
        Task and kind of target that the admission has determined.
    first_offset
        Offset of the stream's first message.
    rejected
        Elements of the current message that were rejected after decoding.
    learner
        State of the learner, from `StreamLearner.saved_state`.
    classes
        Classes of the accepted labels, in order of first appearance.
    """

    task: Task | None
    target_kind: type | None
    first_offset: int
    rejected: Sequence[Rejected]
    learner: LearnerState
    classes: tuple[str, ...] = ()


class _Unlabelled(msgspec.Struct, forbid_unknown_fields=True):
    label: str | None
    value: Annotated[float, msgspec.Meta(ge=-LARGEST, le=LARGEST)] | None
    ts: int | None
    probabilities: list[tuple[str, float]] | None
    groups: bytes = b""


class _Data(Numbers, kw_only=True, forbid_unknown_fields=True):
    """The JSON values of a state."""

    task: Task | None
    target: _Target | None
    first_offset: Count
    rejected: list[tuple[Count | None, Reason, str]]
    classes: _Texts
    said: _Texts
    names: _Texts
    kinds: list[Kind]
    categories: list[_Texts]
    retyped: Count
    over_limit: Count
    waited: list[tuple[str, Count, _Unlabelled | None]]
    """id and number of each event that waits or has waited, with what is kept of it until its label comes."""
    begun: bool
    joined: Count
    missed: Count
    dropped: Count = 0
    model: tuple[str, _Texts] | None
    """Family of the model, and the classes that it has learned. A trained model is not part of the state."""
    newest: dict[str, Any] | None
    """The newest snapshot of a compiled model, if the state was taken at rest."""
    entries: tuple[Count, Count | None, Count, Count | None] | None = None
    """With `explain.unlabelled`, the number of rows, and the numbers of `Entries`."""
    expected: Saved
    groups: groups_of.Saved | None = None


def reason_for_key(settings: Settings) -> str | None:
    """Return why a learner needs an HMAC key under these settings; None if it needs none."""
    if not settings.model.learns:
        try:
            generic = fixed_model(settings).generic
        except ModelError:
            generic = None  # the learner reports it
        if generic is not None:
            return f"onnxruntime evaluates the model, so its snapshot is sealed: {generic}"
    reason = _reason_for_pickle(settings) if settings.checkpoint.seconds else None
    if reason is None:
        return None
    return f"{reason}, so checkpoints are pickles; without checkpoints (checkpoint.seconds=0), a restart relearns all"


def _reason_for_pickle(settings: Settings) -> str | None:
    if "isage" in settings.explain.names and settings.isage.removal == "conditional":
        return "isage.removal=conditional keeps trees of River"
    if not settings.model.learns:
        return None
    for task in possible_tasks(settings.model.chosen_task, settings.explain.loss):
        try:
            model = StreamModel(settings.model.factory(settings.seed), task, settings.model.many_classes)
        except ModelError:
            continue  # the model is not for this task
        if model.stays_in_river is not None:
            return f"the model of {task.value} learns in River: {model.stays_in_river}"
    return None


def encode(state: StreamState) -> bytes | None:
    """Return a state as plain data; None if only a pickle can hold it."""
    of = state.learner
    model, features, waiting, entries = of.model, of.features, of.waiting, of.entries
    rows = of.background.state(of.rows)
    if rows is None or isinstance(model, FixedModel) or (model is not None and model.live is None):
        return None
    arrays: dict[str, Array] = {_BACKGROUND + name: array for name, array in rows.items()}
    learned = None
    if model is not None and model.live is not None:
        family, data = families.write(model.live)
        learned, arrays[_MODEL] = (family, list(model.classes)), np.frombuffer(data, np.uint8)
    newest: dict[str, Any] | None = None
    if of.newest is not None:
        newest, parts = serialization.pack(of.newest)  # type: ignore[arg-type]  # it is compiled
        arrays |= {_NEWEST + name: array for name, array in parts.items()}
    arrays |= _waiting_arrays([kept.x for _, kept in waiting.events.values() if kept is not None])
    groups = None
    if of.groups is not None:
        groups, parts = of.groups.saved()
        arrays |= {_GROUPS + name: array for name, array in parts.items()}
    content = _Data(
        **of.numbers(),
        task=state.task,
        target=next((name for name, kind in _TARGETS.items() if kind is state.target_kind), None),
        first_offset=state.first_offset,
        rejected=[(one.index, one.reason, one.detail) for one in state.rejected],
        classes=list(state.classes),
        said=sorted(of.said),
        names=features.names,
        kinds=features.kinds,
        categories=[list(codes) for codes in features.categories],
        retyped=features.counts.retyped,
        over_limit=features.counts.over_limit,
        waited=[(event_id, seq, _kept(kept)) for event_id, (seq, kept) in waiting.events.items()],
        begun=waiting.begun,
        joined=waiting.joined,
        missed=waiting.missed,
        dropped=waiting.dropped,
        model=learned,
        newest=newest,
        expected=of.expected.saved(),
        groups=groups,
        entries=None if entries is None else (of.rows, entries.next, entries.events, entries.effects),
    )
    return frames.encode(KIND, VERSION, msgspec.to_builtins(content), arrays)


def decode(
    data: bytes, *, stream: str, rows: int, seqs: int, settings: Settings, models: PushedModels | None = None
) -> StreamState:
    """Return a state from plain data.

    Parameters
    ----------
    stream, rows, seqs
        The stream, and the numbers of its rows (or entries) and events, which the checkpoint around the data holds.
    settings
        All settings. They must be those of the state, as its fingerprint says.
    models
        The models that marks name.

    Raises
    ------
    FrameError, StateError, NotCompilable, ModelError
        The bytes are damaged, forged, or not a state of this stream under these settings.
    """
    frame = frames.decode(data, KIND, VERSION)
    found: _Data = frames.convert(frame.meta, _Data, KIND)
    parts: dict[str, dict[str, Array]] = {_BACKGROUND: {}, _NEWEST: {}, _WAITING: {}, _GROUPS: {}}
    body: bytes | None = None
    for name, one in frame.arrays.items():
        group, slash, rest = name.partition("/")
        require(name == _MODEL or group + slash in parts, "arrays of a model, its rows, groups and snapshot", _OF)
        if name == _MODEL:
            require(one.dtype == np.uint8 and one.ndim == 1, "a model as bytes", _OF)
            body = one.tobytes()
        else:
            parts[group + slash][rest] = one
    _check_admission(found, settings)
    fixed = _fixed(found, settings, models or PushedModels())
    features = _features(found, settings, fixed)
    number, (rows, entries) = rows, _entries(found, rows, seqs, settings)
    background = Background(settings, stream)
    background.restore(parts[_BACKGROUND], rows, features)
    model = None
    if fixed is None:
        model = _model(found, body, features, settings)
        require(min(rows, 1) <= found.version <= rows <= seqs, "a snapshot of an earlier row", _OF)
        require(rows < found.next_due, "a later row for the next snapshot", _OF)
    else:
        require(rows <= seqs and found.model is None and body is None, "no model that learns", _OF)
        require(found.version <= max(number, settings.explain.first_row), "a model for each explained row at most", _OF)
        _check_fixed(found, rows > 0 or (entries is not None and entries.effects is not None), fixed)
    require(found.at_rest or not (found.newest or parts[_NEWEST]), "no snapshot in a state that was taken at one", _OF)
    groups = _groups(found, parts[_GROUPS], seqs, settings)
    learner = LearnerState(
        **found.numbers(),
        rows=rows,
        seqs=seqs,
        features=features,
        loss=loss_for(found.task, settings.explain.loss) if found.task is not None else "",
        background=background,
        said=set(found.said),
        model=fixed if found.pushed is not None else model,
        waiting=_waiting(found, parts[_WAITING], seqs, features, settings),
        entries=entries,
        expected=_expected(found, seqs, fixed if fixed is not None else model, settings),
        groups=groups,
        newest=_newest(found, parts[_NEWEST], features, model) if found.at_rest else None,
    )
    rejected = tuple(Rejected(*one) for one in found.rejected)
    kind = None if found.target is None else _TARGETS[found.target]
    return StreamState(found.task, kind, found.first_offset, rejected, learner, tuple(found.classes))


def _fixed(found: _Data, settings: Settings, models: PushedModels) -> FixedModel | None:
    """Return the model of a stream that is already trained: that of the settings, or the one of its newest mark."""
    require(found.pushed is None or not settings.model.learns, "no model in place of one that learns", _OF)
    if settings.model.learns:
        return None
    model = fixed_model(settings)
    if found.pushed is None:
        return model
    counts = found.known_categories
    require(len(counts) == len(model.features) <= len(found.categories), "the texts of each feature", _OF)
    require(all(map(lambda count, codes: count <= len(codes), counts, found.categories)), "the texts of a model", _OF)
    texts = [codes[:count] for codes, count in zip(found.categories, counts, strict=False)]
    require(all(len(set(codes)) == len(codes) for codes in texts), "distinct categories", _OF)
    return models.again(found.pushed, settings, model, texts)


def _entries(found: _Data, number: int, seqs: int, settings: Settings) -> tuple[int, Entries | None]:
    """Return the number of rows, and those of the entries if effects need no label. `number` is the checkpoint's."""
    first = settings.explain.first_row
    require((found.entries is not None) == settings.explain.every_event, "entries with explain.unlabelled only", _OF)
    if found.entries is None:
        return number, None
    rows, following, events, effects = found.entries
    require(number == (rows if following is None else following), "the entry of its checkpoint", _OF)
    require(following is None or following > max(first, rows - 1), "entries of all explained rows", _OF)
    require(
        following is not None or (effects is None and rows <= first), "entries from the first explained row on", _OF
    )
    require((effects or 0) <= events <= seqs, "the events of the stream", _OF)
    return rows, Entries(following, events, effects)


def _expected(
    found: _Data, seqs: int, model: StreamModel | FixedModel | None, settings: Settings
) -> ExpectedPerformance:
    expected = ExpectedPerformance(settings.labels.estimate, settings.labels.window)
    expected.restore(found.expected, seqs, [] if model is None else list(model.classes))
    return expected


def _groups(found: _Data, arrays: Mapping[str, Array], seqs: int, settings: Settings) -> GroupState | None:
    """Return the groups of a stream, with the codes of the events that wait."""
    given = settings.groups.by is not None
    require((found.groups is not None) == given and (given or not arrays), "groups with groups.by only", _OF)
    waiting = [kept.groups for _, _, kept in found.waited if kept is not None]
    if found.groups is None:
        require(not any(waiting), "no codes of groups", _OF)
        return None
    groups = GroupState(settings.groups)
    groups.restore(found.groups, arrays, seqs)
    require(all(map(groups.has, waiting)), "codes of known groups", _OF)
    return groups


def _kept(kept: Unlabelled | None) -> _Unlabelled | None:
    if kept is None:
        return None
    of_classes = kept.prediction.probabilities
    probabilities = None if of_classes is None else [*of_classes.items()]
    return _Unlabelled(kept.label, kept.value, kept.ts, probabilities, kept.groups)


def _waiting_arrays(kept: Sequence[KeptFeatures]) -> dict[str, Array]:
    """Return what `_kept_features` reads: the features of all waiting events, one after the other."""
    if not kept:
        return {}
    slots = [np.arange(len(one.values)) if one.slots is None else np.array(one.slots) for one in kept]
    return {
        f"{_WAITING}counts": np.array([len(one.values) for one in kept], np.int64),
        f"{_WAITING}slots": np.concatenate(slots).astype(np.int32),
        f"{_WAITING}values": np.concatenate([np.array(one.values, np.float64) for one in kept]),
    }


def _kept_features(arrays: Mapping[str, Array], events: int, features: FeatureTable) -> list[KeptFeatures]:
    """Return the features of each waiting event."""
    require(arrays.keys() == {"counts", "slots", "values"}, "counts, slots and values of the waiting events", _OF)
    counts, slots, values = arrays["counts"], arrays["slots"], arrays["values"]
    typed = counts.dtype == np.int64 and slots.dtype == np.int32 and values.dtype == np.float64
    require(typed and counts.ndim == slots.ndim == values.ndim == 1, "one number for each value", _OF)
    fits = len(counts) == events and counts.min(initial=0) >= 0 and counts.max(initial=0) <= len(features)
    require(bool(fits), "at most one value for each feature of each waiting event", _OF)
    require(int(counts.sum()) == len(slots) == len(values), "one number for each value", _OF)
    known = ((slots >= 0) & (slots < len(features))).all()
    require(bool(known) and features.can_have(slots, values), "values that the features can have", _OF)
    ends = np.cumsum(counts)
    made = []
    for begin, end in zip((ends - counts).tolist(), ends.tolist(), strict=True):
        mine = slots[begin:end]
        require(len(np.unique(mine)) == end - begin, "one value for each feature", _OF)
        in_turn = np.array_equal(mine, np.arange(end - begin))
        made.append(
            KeptFeatures(None if in_turn else array("i", mine.tolist()), array("d", values[begin:end].tobytes()))
        )
    return made


def _check_admission(found: _Data, settings: Settings) -> None:
    kind = None if found.target is None else _TARGETS[found.target]
    check_saved(found.task, kind, found.classes, settings.model.chosen_task, settings.limits, _OF)


def _features(found: _Data, settings: Settings, fixed: FixedModel | None) -> FeatureTable:
    names, kinds, categories, limits = found.names, found.kinds, found.categories, settings.limits
    features = FeatureTable.of_state(limits, names, kinds, categories, _OF)
    features.counts = FeatureCounts(found.retyped, found.over_limit)
    if found.task is not None:
        features.model_takes_text = takes_text(settings.model.name)
    if fixed is not None:
        own = fixed.table(limits)
        features.declared = count = own.declared
        begin = [list(codes)[: len(known)] for codes, known in zip(categories, own.categories, strict=False)]
        same = (names[:count], kinds[:count], begin) == (own.names, own.kinds, [list(one) for one in own.categories])
        require(same, "the features of the model first, with the texts that it knows", _OF)
    return features


def _check_fixed(found: _Data, made: bool, fixed: FixedModel) -> None:
    """Check what the snapshot of a trained model settles, which is of version 0 unless marks have replaced it."""
    require((found.version == 0) == (found.pushed is None), "version 0 of the model of the settings", _OF)
    require(found.staleness is None, "no staleness of a model that learns nothing", _OF)
    require(found.known_categories == fixed.known, "the number of texts that the model knows", _OF)
    due, through_river = (NEVER, not fixed.predictor.compiled) if made else (1, False)
    require((found.next_due, found.through_river) == (due, through_river), "one snapshot", _OF)
    require(not found.at_rest, "no snapshot of a model that is at hand", _OF)


def _model(found: _Data, body: bytes | None, features: FeatureTable, settings: Settings) -> StreamModel | None:
    has_model = found.task is not None
    require(has_model == (found.model is not None) == (body is not None), "a model where the task is known", _OF)
    if found.task is None or found.model is None or body is None:
        return None
    family, classes = found.model
    require(set(classes) <= set(found.classes) and len(set(classes)) == len(classes), "classes of the stream", _OF)
    model = StreamModel(settings.model.factory(settings.seed), found.task, settings.model.many_classes)
    inputs: dict[str, bool | None] = dict(model.live.features) if model.live is not None else {}
    for name, kind, given in zip(features.names, features.kinds, features.given(), strict=True):
        if given:
            inputs.setdefault(name, kind is Kind.TEXT)
    model.learn_again(classes, family, body)
    met = model.live.features if model.live is not None else {}
    fits = all(is_text is None or inputs.get(name) == is_text for name, is_text in met.items())
    require(fits, "a model of the stream's features", _OF)
    return model


def _waiting(
    found: _Data, arrays: Mapping[str, Array], seqs: int, features: FeatureTable, settings: Settings
) -> Waiting[Unlabelled]:
    numbers = [seq for _, seq, _ in found.waited]
    ascending = all(one < later for one, later in pairwise(numbers))
    within = not numbers or seqs - settings.labels.window <= numbers[0] <= numbers[-1] < seqs
    require(ascending and within and (found.begun or not numbers), "the newest events of the stream", _OF)
    require(len({event_id for event_id, _, _ in found.waited}) == len(numbers), "distinct ids", _OF)
    waits = sum(kept is not None for _, _, kept in found.waited)
    features_of = iter(_kept_features(arrays, waits, features) if waits else ())
    waiting: Waiting[Unlabelled] = Waiting(settings.labels.window, settings.limits.waiting_bytes)
    before: tuple[str, ...] = ()
    for event_id, seq, kept in found.waited:
        unlabelled = None
        if kept is not None:
            classes, probabilities = None, None
            if kept.probabilities is not None:
                classes = tuple(name for name, _ in kept.probabilities)
                require(len(set(classes)) == len(classes), "distinct classes of a prediction", _OF)
                classes = before = before if classes == before else classes
                probabilities = array("d", [probability for _, probability in kept.probabilities])
            x = next(features_of)
            unlabelled = Unlabelled(x, kept.label, classes, probabilities, kept.value, kept.ts, kept.groups)
        waiting.resume(event_id, seq, unlabelled)
    waiting.begun, waiting.joined, waiting.missed = found.begun, found.joined, found.missed
    waiting.dropped = found.dropped
    return waiting


def _newest(
    found: _Data, arrays: Mapping[str, Array], features: FeatureTable, model: StreamModel | None
) -> Predictor | None:
    if found.newest is None:
        require(not arrays, "no arrays without a snapshot", _OF)
        return None
    predictor = serialization.unpack(found.newest, arrays)
    fits = model is not None and predictor.task == model.task.value and set(predictor.classes) <= set(model.classes)
    require(fits, "a snapshot of the stream's model", _OF)
    require(predictor.features == tuple(features.names[: len(predictor.features)]), "a snapshot of its features", _OF)
    return predictor
