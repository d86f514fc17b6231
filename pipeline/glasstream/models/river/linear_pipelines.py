"""From a River model to arrays and back."""

from typing import Any, Final

from river import compose, linear_model, multiclass, optim, preprocessing

from glasstream.base.errors import NotCompilable
from glasstream.models.online.linear import kernels as K
from glasstream.models.online.linear.state import State
from glasstream.models.river.implicit import ImplicitRegression

_KINDS: Final = {
    linear_model.LinearRegression: K.REGRESSION,
    ImplicitRegression: K.REGRESSION,
    linear_model.LogisticRegression: K.BINARY,
}
_LOSSES: Final = {K.REGRESSION: optim.losses.Squared, K.BINARY: optim.losses.Log}
NAMES: Final = "StandardScaler | LinearRegression, StandardScaler | LogisticRegression or one-vs-rest of the latter"


def is_linear(model: Any) -> bool:
    """Return whether a model ends in a type that `read_model` takes, maybe with other parameters or steps."""
    while type(model) in (compose.Pipeline, multiclass.OneVsRestClassifier):
        model = model.classifier if type(model) is multiclass.OneVsRestClassifier else model._last_step
    return type(model) in _KINDS


def read_model(model: Any) -> State:
    """Return a River model as arrays; the model itself does not change.

    Raises
    ------
    NotCompilable
        The model has to stay with River; the message says why.
    """
    if type(model) is not multiclass.OneVsRestClassifier:
        state = _begin(model)
        _read_member(state, 0, model)
        return state
    prototype = _begin(model.classifier)
    _require(
        prototype.kind == K.BINARY, f"one-vs-rest over StandardScaler | LogisticRegression, got {model.classifier}"
    )
    _require(not prototype.slots and model._y_name is None, "one-vs-rest over a model that has not learned")
    labels = {label: number for number, label in enumerate(model.classifiers)}
    _require(all(type(label) in (str, int, bool) for label in labels), "classes that are texts or whole numbers")
    state = State(K.ONE_VS_REST, prototype.parameters, prototype.steps, labels=labels)
    for label, number in labels.items():
        member = _begin(model.classifiers[label])
        same = (member.kind, member.parameters, member.steps) == (K.BINARY, state.parameters, state.steps)
        _require(same, "the same parameters for all classes")
        _read_member(state, number, model.classifiers[label])
        state.order[number] = number
    state.born[0] = len(labels)
    return state


def write_model(state: State) -> Any:
    """Return a new River model in the state of the arrays."""
    if state.kind != K.ONE_VS_REST:
        return _written_member(state, 0)
    model = multiclass.OneVsRestClassifier(_new_member(state))
    labels = list(state.labels)
    for number in state.order[: state.born[0]].tolist():
        model.classifiers[labels[number]] = _written_member(state, number)
    return model


def _require(fits: bool, what: str) -> None:
    if not fits:
        raise NotCompilable(f"expected {what}")


def _begin(model: Any) -> State:
    """Return an empty state with the parameters of a pipeline, and with the slots of the features that it has met."""
    steps = list(model.steps.items()) if type(model) is compose.Pipeline else []
    got = " | ".join(type(step).__name__ for _, step in steps) or type(model).__name__
    _require(len(steps) == 2 and type(steps[1][1]) in _KINDS, f"{NAMES}, got {got}")
    (scaler_name, scaler), (linear_name, linear) = steps
    plain = type(scaler) is preprocessing.StandardScaler and scaler.with_std and scaler.window_size is None
    _require(plain, f"a StandardScaler with deviations and without window before {type(linear).__name__}, got {got}")
    kind = _KINDS[type(linear)]
    loss, optimizer = linear.loss, linear.optimizer
    _require(type(loss) is _LOSSES[kind], f"the loss {_LOSSES[kind].__name__}, got {type(loss).__name__}")
    _require(kind == K.REGRESSION or (loss.weight_pos, loss.weight_neg) == (1, 1), "the loss Log without weights")
    _require(type(optimizer) is optim.SGD, f"the optimizer SGD, got {type(optimizer).__name__}")
    _require(not linear.l1 and not linear.l2, "neither l1 nor l2")
    _require(type(linear.initializer) is optim.initializers.Zeros, "the initializer Zeros")
    _require(linear._y_name is None, "a model without mini-batches")
    rate, intercept_rate = optimizer.lr, linear.intercept_lr
    _require(type(rate) is optim.schedulers.Constant, f"a constant learning rate, got {type(rate).__name__}")
    scales = type(intercept_rate) is optim.schedulers.InverseScaling
    _require(
        scales or type(intercept_rate) is optim.schedulers.Constant,
        f"a learning rate Constant or InverseScaling of the intercept, got {type(intercept_rate).__name__}",
    )
    power = intercept_rate.power if scales else 0.0
    _require(isinstance(power, int | float) and 0.0 <= power <= 1.0, f"a power from 0 to 1, got {power!r:.60}")
    parameters = {
        "rate": rate.learning_rate,
        "intercept_rate": intercept_rate.learning_rate,
        "intercept_power": power,
        "intercept": linear.intercept_init,
        "clip": linear.clip_gradient,
        "implicit": float(type(linear) is ImplicitRegression),
    }
    for name, value in parameters.items():
        _require(isinstance(value, int | float) and abs(value) <= 1e300, f"a number for {name}, got {value!r:.60}")
    _require(all(type(name) is str for name in scaler.vars), "names of features to be texts")
    state = State(kind, {name: float(value) for name, value in parameters.items()}, (scaler_name, linear_name))
    state.slots = {name: slot for slot, name in enumerate(scaler.vars)}
    return state


def _read_member(state: State, member: int, model: compose.Pipeline) -> None:
    scaler, linear = model.steps.values()
    weights = linear.weights
    together = scaler.counts.keys() == weights.keys() and weights.keys() <= scaler.means.keys() <= scaler.vars.keys()
    _require(together, "a scaler and a linear model that have learned the same features")
    for name in scaler.vars:
        state.slots.setdefault(name, len(state.slots))
    state.make_room()
    for name, variance in scaler.vars.items():
        count = scaler.counts.get(name, 0)
        _require(not variance < 0.0 and 0 <= count <= 2**53, f"a count and a variance of {name!r} from 0 on")
        row = state.features[member, state.slots[name]]
        row[K.COUNT], row[K.MEAN], row[K.VARIANCE], row[K.MET] = count, scaler.means.get(name, 0.0), variance, 1.0
        row[K.WEIGHT] = weights.get(name, 0.0)
        _require(count > 0 or not row[: K.MET].any(), f"nothing known of {name!r}, which was never learned")
    state.numbers[member, K.INTERCEPT], state.numbers[member, K.STEPS] = linear.intercept, linear.optimizer.n_iterations


def _new_member(state: State) -> compose.Pipeline:
    given = state.parameters
    make = linear_model.LinearRegression if state.kind == K.REGRESSION else linear_model.LogisticRegression
    linear = (ImplicitRegression if given["implicit"] else make)(
        optimizer=optim.SGD(given["rate"]),
        intercept_init=given["intercept"],
        intercept_lr=optim.schedulers.InverseScaling(given["intercept_rate"], given["intercept_power"])
        if given["intercept_power"]
        else given["intercept_rate"],
        clip_gradient=given["clip"],
    )
    scaler_name, linear_name = state.steps
    return compose.Pipeline((scaler_name, preprocessing.StandardScaler()), (linear_name, linear))


def _written_member(state: State, member: int) -> compose.Pipeline:
    model = _new_member(state)
    scaler, linear = model.steps.values()
    weights = linear._weights
    rows = state.features[member].tolist()
    for name, slot in state.slots.items():
        count, mean, variance, weight, met = rows[slot]
        if met:
            scaler.vars[name] = variance
        if count:
            scaler.counts[name], scaler.means[name], weights[name] = int(count), mean, weight
    linear.intercept = float(state.numbers[member, K.INTERCEPT])
    linear.optimizer.n_iterations = int(state.numbers[member, K.STEPS])
    return model
