"""GBMAP as scikit-learn estimators; scikit-learn must be installed.

These estimators deviate from scikit-learn's conventions:

- Without `random_state` the seed is 0 and not the global random state: a fit is a function of its data.
- NaN counts as the column's mean (with `scale`); see `glasstream.detect.gbmap.encoding`.
- A classifier refuses data of a single class: its score would have no finite optimum.
- Sample weights are not supported.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from glasstream.base.errors import FrameError, InputError, ModelError, SettingsError
from glasstream.detect.gbmap import storage
from glasstream.detect.gbmap.attributions import local_attributions
from glasstream.detect.gbmap.encoding import Encoding, scale_of
from glasstream.detect.gbmap.fit import fit_map
from glasstream.detect.gbmap.map import BoostedMap, sigmoids, start_values
from glasstream.detect.gbmap.rows import Floats, as_column, is_number, is_whole
from glasstream.detect.gbmap.settings import GbmapSettings, Loss, Unit

try:
    from sklearn.base import (  # type: ignore[import-untyped]
        BaseEstimator,
        ClassifierMixin,
        ClassNamePrefixFeaturesOutMixin,
        RegressorMixin,
        TransformerMixin,
    )
    from sklearn.utils.multiclass import check_classification_targets  # type: ignore[import-untyped]
    from sklearn.utils.validation import check_is_fitted, validate_data  # type: ignore[import-untyped]
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "sklearn":
        raise
    raise InputError("gbmap: scikit-learn is not installed; pip install 'glasstream[gbmap]'") from error

F0 = float | Callable[[Floats], npt.ArrayLike] | None


class _Gbmap(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """The common part of regressor and classifier."""

    _loss: Loss
    maps_: tuple[BoostedMap, ...]
    encoding_: Encoding | None
    n_features_in_: int

    def __init__(
        self,
        *,
        n_learners: int = 20,
        beta: float = 5.0,
        ridge: float = 1e-3,
        max_iter: int = 200,
        tol: float = 1e-4,
        n_starts: int = 1,
        unit: Unit = "softplus",
        f0: F0 = None,
        scale: bool = True,
        categories: Sequence[int] | None = None,
        held_out: float = 0.0,
        patience: int = 5,
        single: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_learners = n_learners
        self.beta = beta
        self.ridge = ridge
        self.max_iter = max_iter
        self.tol = tol
        self.n_starts = n_starts
        self.unit = unit
        self.f0 = f0
        self.scale = scale
        self.categories = categories
        self.held_out = held_out
        self.patience = patience
        self.single = single
        self.random_state = random_state

    def transform(self, X: npt.ArrayLike) -> Floats:
        """Return the embedding φ(x) of each row, float64[n, m] (003, equation 5).

        With several classes, the embeddings of their maps stand side by side, float64[n, Σ m].

        Raises
        ------
        ValueError
            X has another number of columns than the rows of the fit, or infinities.
        """
        rows = self._rows(X)
        return np.concatenate([one.embed(rows) for one in self.maps_], axis=1)

    def attributions(self, X: npt.ArrayLike) -> Floats:
        """Return `local_attributions` of each row, float64[n, p], on the encoded columns.

        Raises
        ------
        ValueError
            X is not valid for `transform`, or there are several classes and so several maps.
        """
        rows = self._rows(X)
        if len(self.maps_) != 1:
            raise ValueError(f"expected one map, got {len(self.maps_)}; call local_attributions(maps_[i], rows)")
        return local_attributions(self.maps_[0], rows)

    def to_bytes(self) -> bytes:
        """Return the fitted estimator as arrays, without pickle; `from_bytes` reads them.

        Raises
        ------
        NotFittedError
            The estimator is not fitted.
        ValueError
            f0 is a model, or the classes are neither texts nor numbers.
        """
        check_is_fitted(self)
        if callable(self.f0):
            raise ValueError("expected no model as f0 to store an estimator; store its maps_ instead")
        return storage.encode(storage.StoredMaps(self.maps_, self.encoding_, self._about()))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the stored estimator, whose results are those of the original, bit for bit.

        Only the fitted state is stored. The parameters of the fit are therefore the defaults.

        Raises
        ------
        FrameError
            The bytes are damaged, or do not hold this kind of estimator.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise FrameError(f"gbmap: expected the bytes of a stored estimator, got {type(data).__name__}")
        stored = storage.decode(data)
        made = cls()
        made._restore(stored)
        return made

    @property
    def _n_features_out(self) -> int:
        return sum(one.learners for one in self.maps_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = bool(self.scale)
        return tags

    def _about(self) -> dict[str, Any]:
        f0 = float(self.f0) if self.f0 is not None and not callable(self.f0) else 0.0
        return {"loss": self._loss, "features": int(self.n_features_in_), "f0": f0}

    def _restore(self, stored: storage.StoredMaps) -> None:
        about = stored.about
        if about.get("loss") != self._loss or type(about.get("features")) is not int:
            raise FrameError(f"gbmap: expected a stored {type(self).__name__}, got {about!r:.200}")
        expected = stored.maps[0].features if stored.encoding is None else len(stored.encoding.means)
        if about["features"] != expected or type(about.get("f0")) is not float:
            raise FrameError(f"gbmap: expected rows of {expected} columns and f0, got {about!r:.200}")
        self.scale, self.f0 = stored.encoding is not None, about["f0"]
        self.maps_, self.encoding_, self.n_features_in_ = stored.maps, stored.encoding, about["features"]

    def _settings(self) -> GbmapSettings:
        state = self.random_state
        draws = callable(getattr(state, "randint", None))
        if not (state is None or is_whole(state) or draws):
            raise InputError(f"gbmap: expected random_state as a whole number, a RandomState or None, got {state!r}")
        seed = int(state.randint(2**31 - 1)) if draws else int(state or 0)
        return GbmapSettings(
            learners=self.n_learners,
            loss=self._loss,
            unit=self.unit,
            beta=self.beta,
            ridge=self.ridge,
            iterations=self.max_iter,
            tolerance=self.tol,
            starts=self.n_starts,
            held_out=self.held_out,
            patience=self.patience,
            single=self.single,
            seed=seed,
        )

    def _learn_rows(self, X: Floats) -> Floats:
        """Return the encoded rows of the fit, and keep the encoding."""
        if not self.scale and self.categories is not None and len(self.categories):
            raise InputError("gbmap: expected scale=True with categories: encode them before, or scale")
        columns = () if self.categories is None else self.categories
        if not (isinstance(columns, Sequence | np.ndarray) and all(is_whole(one) for one in columns)):
            raise InputError(f"gbmap: expected categories as column indices of X, got {columns!r}")
        self.encoding_ = Encoding.learn(X, [int(one) for one in columns]) if self.scale else None
        return X if self.encoding_ is None else self.encoding_.encode(X)

    def _checked(self, X: npt.ArrayLike, **more: Any) -> Any:
        finite = "allow-nan" if self.scale else True
        return validate_data(self, X, dtype=np.float64, ensure_all_finite=finite, **more)

    def _rows(self, X: npt.ArrayLike) -> Floats:
        check_is_fitted(self)
        return self._encoded(self._checked(X, reset=False))

    def _encoded(self, raw: Floats) -> Floats:
        return raw if self.encoding_ is None else self.encoding_.encode(raw)

    def _start(self, raw: Floats) -> Floats:
        """Return f0 of each row."""
        if not (self.f0 is None or callable(self.f0) or is_number(self.f0)):
            raise InputError(f"gbmap: expected f0 as a number, a function of rows or None, got {self.f0!r}")
        return start_values(0.0 if self.f0 is None else self.f0, raw)


def _in_own_terms(message: str) -> str:
    """Translate an error to the parameter names of these estimators."""
    for name, own in (
        ("learners", "n_learners"),
        ("iterations", "max_iter"),
        ("tolerance", "tol"),
        ("starts", "n_starts"),
    ):
        message = message.replace(f"expected {name} ", f"expected {own} ")
    return message


class GBMAPRegressor(RegressorMixin, _Gbmap):
    """Gradient Boosting Mapping for a real target (003).

    Parameters
    ----------
    n_learners
        m, number of weak learners, which is the dimension of the embedding.
    beta
        β of the softplus.
    ridge
        λ of the penalty λ Σ w²/p on the mean loss.
    max_iter, tol, n_starts
        Largest number of iterations, tolerance and number of starts of L-BFGS for each learner; see `GbmapSettings`.
    unit
        ``"softplus"``, ``"relu"`` or ``"linear"``.
    f0
        Model to boost from: a number, or a function that returns one number for each row of the original X; None is 0.
        The map learns what f0 leaves unexplained.
    scale
        Whether to standardise and encode X (`glasstream.detect.gbmap.encoding`) and to standardise the target for the
        fit, as in the paper's experiments. Predictions and embedding are in the target's own units in any case.
    categories
        Columns of X that hold codes of categories; they are one-hot encoded.
    held_out, patience
        Share of held-out rows, and the number of learners without improvement on them after which the fit stops; see
        `GbmapSettings`. A share of 0 disables early stopping.
    single
        Whether to hold rows as float32 during the fit.
    random_state
        Seed of the starts after the first and of the held-out rows; a whole number, a RandomState, or None for 0.

    Attributes
    ----------
    maps_
        Tuple with the one fitted map, on the encoded columns.
    encoding_
        Encoding of the rows for the map; None without `scale`.
    losses_
        float64[m + 1]: training loss with 0, 1, ..., m learners, of the target as it was fitted (standardised).
    n_iter_
        Largest number of L-BFGS iterations for one learner; at least 1.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.linspace(-3, 3, 200)[:, None]
    >>> model = GBMAPRegressor(n_learners=4).fit(x, np.abs(x[:, 0]))
    >>> bool(model.score(x, np.abs(x[:, 0])) > 0.9)
    True
    >>> model.transform(x).shape
    (200, 4)
    """

    _loss: Loss = "quadratic"

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> Self:
        """Fit to rows X, n x d, and targets y, n.

        Raises
        ------
        ValueError
            X, y or a parameter is invalid.
        """
        raw, targets = self._checked(X, y=y, y_numeric=True)
        try:
            settings = self._settings()
            left = as_column(np.asarray(targets, np.float64) - self._start(raw), "targets", len(raw))
            centre, deviation = scale_of(left) if self.scale else (0.0, 1.0)
            fit = fit_map(self._learn_rows(raw), (left - centre) / deviation, settings)
        except (InputError, ModelError, SettingsError) as error:
            raise ValueError(_in_own_terms(str(error))) from error
        self.maps_ = (fit.map.rescaled(deviation, centre),)
        self.losses_ = fit.losses
        self.n_iter_ = max(fit.iterations, 1)
        return self

    def predict(self, X: npt.ArrayLike) -> Floats:
        """Return f of each row, float64[n]. Errors are those of `transform`."""
        check_is_fitted(self)
        raw = self._checked(X, reset=False)
        return self._start(raw) + self.maps_[0].predict(self._encoded(raw))

    def staged_predict(self, X: npt.ArrayLike) -> Iterator[Floats]:
        """Yield f of each row with the first 1, 2, ..., m learners, float64[n] each.

        Each result is the prediction of a fit with that many learners. Errors are those of `transform`.
        """
        check_is_fitted(self)
        raw = self._checked(X, reset=False)
        base = self._start(raw)
        for stage in self.maps_[0].staged(self._encoded(raw)):
            yield base + stage


class GBMAPClassifier(ClassifierMixin, _Gbmap):
    """Gradient Boosting Mapping for two classes (003); for more classes, one map against the rest for each.

    Parameters
    ----------
    n_learners, beta, ridge, max_iter, tol, n_starts, unit, scale, categories, held_out, patience, single, random_state
        Parameters of `GBMAPRegressor`; with more than two classes they apply to the map of each class.
    f0
        Model to boost from: a number, or a function that returns the score of the second class for each row of X; None
        is 0. With more than two classes it must be a number or None.

    Attributes
    ----------
    classes_
        Classes, ascending.
    maps_
        With two classes, the map of the second; with more, one map for each class.
    encoding_
        Encoding of the rows, as in `GBMAPRegressor`.
    losses_
        float64[m + 1] for each map: training loss with 0, 1, ..., m learners.
    n_iter_
        Largest number of L-BFGS iterations, as in `GBMAPRegressor`.
    """

    _loss: Loss = "logistic"

    def fit(self, X: npt.ArrayLike, y: npt.ArrayLike) -> Self:
        """Fit to rows X, n x d, and classes y, n, of any type that can be sorted.

        Raises
        ------
        ValueError
            X, y or a parameter is invalid, or y has a single class.
        """
        raw, labels = self._checked(X, y=y)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        count = len(self.classes_)
        if count < 2:
            raise ValueError(f"expected rows of two classes or more, got one class only, {self.classes_.tolist()}")
        if count > 2 and callable(self.f0):
            raise ValueError(f"expected two classes with a model as f0, got {count}")
        try:
            settings = self._settings()
            rows, base = self._learn_rows(raw), self._start(raw)
            fits = [
                fit_map(rows, np.where(codes == code, 1.0, -1.0), settings, initial=base)
                for code in (range(count) if count > 2 else (1,))
            ]
        except (InputError, ModelError, SettingsError) as error:
            raise ValueError(_in_own_terms(str(error))) from error
        self.maps_ = tuple(fit.map for fit in fits)
        self.losses_ = tuple(fit.losses for fit in fits)
        self.n_iter_ = max(1, *(fit.iterations for fit in fits))
        return self

    def decision_function(self, X: npt.ArrayLike) -> Floats:
        """Return f of each row: the score of the second class, float64[n].

        With more than two classes, return the scores of all, float64[n, k]. Errors are those of `transform`.
        """
        check_is_fitted(self)
        raw = self._checked(X, reset=False)
        rows, base = self._encoded(raw), self._start(raw)
        scores = [base + one.predict(rows) for one in self.maps_]
        return scores[0] if len(scores) == 1 else np.stack(scores, axis=1)

    def predict_proba(self, X: npt.ArrayLike) -> Floats:
        """Return the probability of each class, float64[n, k]: σ(f).

        With more than two classes, the probabilities are divided by their sum. Errors are those of `transform`.
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            second = sigmoids(scores)
            return np.stack([1.0 - second, second], axis=1)
        each = sigmoids(scores.reshape(-1)).reshape(scores.shape)
        return np.asarray(each / each.sum(axis=1, keepdims=True))

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the class of each row: the second class if its score is above 0.

        With more than two classes, it is the one of the largest score. Errors are those of `transform`.
        """
        return self._classes(self.decision_function(X))

    def staged_predict(self, X: npt.ArrayLike) -> Iterator[npt.NDArray[Any]]:
        """Yield the class of each row with the first 1, 2, ..., m learners of each map, by the rule of `predict`.

        Errors are those of `transform`.
        """
        check_is_fitted(self)
        raw = self._checked(X, reset=False)
        rows, base = self._encoded(raw), self._start(raw)
        scores: list[Floats] = [base] * len(self.maps_)
        for stage in zip_longest(
            *(one.staged(rows) for one in self.maps_)
        ):  # early stopping may leave maps of different lengths
            scores = [kept if new is None else base + new for kept, new in zip(scores, stage, strict=True)]
            yield self._classes(scores[0] if len(scores) == 1 else np.stack(scores, axis=1))

    def _classes(self, scores: Floats) -> npt.NDArray[Any]:
        chosen = (scores > 0).astype(np.int64) if scores.ndim == 1 else scores.argmax(axis=1)
        return np.asarray(self.classes_[chosen])

    def _about(self) -> dict[str, Any]:
        classes = self.classes_.tolist()
        if not all(type(one) in (str, int, float, bool) for one in classes):
            raise ValueError(f"expected classes that are texts or numbers to store them, got {self.classes_.dtype}")
        return {**super()._about(), "classes": classes}

    def _restore(self, stored: storage.StoredMaps) -> None:
        super()._restore(stored)
        classes = stored.about.get("classes")
        maps = 1 if isinstance(classes, list) and len(classes) == 2 else len(classes or ())
        if not isinstance(classes, list) or len(classes) < 2 or len(stored.maps) != maps:
            raise FrameError(f"gbmap: expected a classifier's classes, one map for each, got {classes!r:.200}")
        self.classes_ = np.array(classes)
