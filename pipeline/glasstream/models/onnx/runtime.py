"""A predictor that calls onnxruntime, with one call for a block of rows."""

import json
import struct
from collections.abc import Mapping, Sequence
from copy import copy
from functools import cache, cached_property
from typing import Any, Final

import numpy as np

from glasstream.base.errors import FrameError, ModelError, ModelRaised
from glasstream.models.onnx.file import Input, OnnxFile, library
from glasstream.models.onnx.meaning import (
    MUCH,
    NEIGHBOURS,
    UNANSWERED,
    expect_meaning,
    probability_remedy,
    trial_rows,
)
from glasstream.models.onnx.remedies import ONNXRUNTIME, ROWS, TARGETS, shortened, way_out
from glasstream.models.predictors.arrays import as_rows
from glasstream.models.predictors.predictor import CLASSIFICATION, NO_LABEL, REGRESSION, Floats, Output, Task

_CALL: Final = 4_096
"""Largest number of rows in one call."""
_LENGTH: Final = struct.Struct("<I")
_MEMORY: Final = 2**31
"""Bytes that all models of this process together may take while they evaluate rows."""
_CONFIGURATION: Final = (
    ("session.use_env_allocators", "1"),
    ("session.use_device_allocator_for_initializers", "1"),
    ("session.load_model_format", "ONNX"),
    ("session.model_external_initializers_file_folder_path", "/dev/null"),
)
"""Options of onnxruntime. Data in other files, which `expect_safe` refuses, would have to be in a folder that cannot
exist.
"""
_NO_MEMORY: Final = ("BFCArena", "bad_alloc", "bad allocation")
"""What onnxruntime's errors contain if there is not enough memory."""


class OnnxPredictor:
    """A predictor that evaluates an ONNX model with onnxruntime, on one thread.

    Numbers are rounded to the type of their input, and to whole numbers where it takes these. A text that is absent is
    passed as an empty text. If the results of a row depend on other rows, each row is evaluated by itself.

    Parameters
    ----------
    model
        Bytes of the model.
    inputs, task, label, table, keys, classes
        See `OnnxFile`.
    categories
        For each feature its texts by code; a code beyond them is an unseen text.
    alone
        Whether each row is evaluated by itself.
    """

    compiled = False

    def __init__(
        self,
        model: bytes,
        inputs: Sequence[Input],
        task: Task,
        label: str | None,
        table: str | None,
        keys: Sequence[int | str],
        classes: Sequence[str],
        categories: Sequence[Sequence[str]],
        alone: bool,
    ) -> None:
        self.task: Task = task
        self.classes = tuple(classes)
        self.features = tuple(name for one in inputs for name in one.features)
        self._model = model
        self._inputs = tuple(inputs)
        self._label = label
        self._table = table
        self._keys = tuple(keys)
        self._categories = [tuple(texts) for texts in categories]
        self._alone = alone
        self.answers = True
        """Whether it has answered for one row at least in its trial."""
        self.notices: tuple[str, ...] = ()
        """Lines for the user about its trial."""

    @classmethod
    def of(
        cls, file: OnnxFile, categories: Sequence[Sequence[str]], numbers: Sequence[Sequence[float]] = ()
    ) -> "OnnxPredictor":
        """Return a predictor of a file, after a trial.

        A row that the model does not take refuses no file: the domain of a model is its own.

        Parameters
        ----------
        numbers
            For each feature the numbers that its encoders know; empty for any.

        Raises
        ------
        ModelError
            onnxruntime cannot load the model, or its outputs are not what the file says.
        """
        task: Task = CLASSIFICATION if file.classes else REGRESSION
        model = file.model.SerializeToString(deterministic=True)
        predictor = cls(model, file.inputs, task, file.label, file.table, file.keys, file.classes, categories, False)
        predictor._session  # noqa: B018 - report here that the model cannot be loaded
        rows = predictor._taken(trial_rows(len(predictor.features), categories, numbers))
        predictor.answers = bool(len(rows))
        try:
            if len(rows):
                expect_meaning(file, predictor._call(rows), predictor.labels(rows))
                influence = predictor._influence(rows)
                predictor._alone = influence >= 0.0
                if influence > MUCH:
                    predictor.notices = (NEIGHBOURS,)
            else:
                predictor._alone = True
        except ModelRaised:
            predictor._alone = True  # the model takes these rows together or alone only
        return predictor

    def evaluate(self, rows: Floats) -> Output:
        rows = as_rows(rows, len(self.features))
        step = 1 if self._alone else _CALL
        parts = [self._call(rows[begin : begin + step]) for begin in range(0, len(rows), step)]
        if not parts:
            return Output(np.empty((0, max(1, len(self.classes)))), np.empty(0, np.int64))
        return Output(np.concatenate([one.values for one in parts]), np.concatenate([one.labels for one in parts]))

    def extended(
        self, names: Sequence[str], kinds: Sequence[int], new_categories: Mapping[int, tuple[int, Sequence[str]]]
    ) -> "OnnxPredictor":
        """Return the same model with categories that came after the predictor was made; see `GenericPredictor`."""
        if not new_categories:
            return self
        later = copy(self)
        later._categories = [*self._categories]
        for slot, (first, texts) in new_categories.items():
            if slot < len(self.features):
                later._categories[slot] = (*self._categories[slot][:first], *texts)
        later.__dict__["_session"] = self._session
        return later

    def to_bytes(self) -> bytes:
        """Return the predictor as bytes."""
        described = {
            "inputs": [(one.name, one.type, one.features, one.flat) for one in self._inputs],
            "task": self.task,
            "label": self._label,
            "table": self._table,
            "keys": self._keys,
            "classes": self.classes,
            "categories": self._categories,
            "alone": self._alone,
        }
        header = json.dumps(described).encode()
        return b"".join((_LENGTH.pack(len(header)), header, self._model))

    @classmethod
    def from_bytes(cls, data: bytes) -> "OnnxPredictor":
        """Return the predictor from the result of `to_bytes`. Trust only bytes that an authentic key has sealed.

        Raises
        ------
        FrameError
            The bytes are of another release.
        ModelError
            onnxruntime is not installed, or cannot evaluate the model.
        """
        try:
            (length,) = _LENGTH.unpack_from(data)
            start = _LENGTH.size + length
            header = json.loads(data[_LENGTH.size : start])
            inputs = [Input(name, kind, tuple(features), flat) for name, kind, features, flat in header.pop("inputs")]
            predictor = cls(data[start:], inputs, **header)
        except (struct.error, ValueError, TypeError, KeyError) as error:
            raise FrameError(f"model snapshot: expected an ONNX model with its description: {error}") from error
        predictor._session  # noqa: B018 - report here that the model cannot be evaluated
        return predictor

    @cached_property
    def _session(self) -> Any:
        onnxruntime = library("onnxruntime")
        _bound_memory(onnxruntime)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.use_deterministic_compute = True
        options.log_severity_level = 4
        for key, value in _CONFIGURATION:
            options.add_session_config_entry(key, value)
        try:
            return onnxruntime.InferenceSession(
                self._model, options, providers=["CPUExecutionProvider"], enable_fallback=False
            )
        except Exception as error:
            raise ModelError(
                f"model.name: onnxruntime cannot use the model: {way_out(ONNXRUNTIME, str(error))} ({shortened(error)})"
            ) from error

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_session"}

    def labels(self, rows: Floats) -> list[int | str]:
        """Return the label of each row as the model gives it; an empty list if it gives none."""
        return (
            []
            if self._label is None
            else self._labels(self._answers(rows)[self._label], max(2, len(rows)))[: len(rows)]
        )

    def _call(self, rows: Floats) -> Output:
        output = self._read(self._answers(rows), max(2, len(rows)))
        return Output(output.values[: len(rows)], output.labels[: len(rows)])

    def _answers(self, rows: Floats) -> dict[str, Any]:
        """Return the outputs of onnxruntime for rows, or for a single one twice."""
        # A single row takes another way through onnxruntime's products of matrices than several do.
        given = np.repeat(rows, 2, axis=0) if len(rows) == 1 else rows
        wanted = [name for name in (self._label, self._table) if name is not None]
        session = self._session
        try:
            return dict(zip(wanted, session.run(wanted, self._fed(given)), strict=True))
        except Exception as error:
            if any(sign in str(error) for sign in _NO_MEMORY):
                raise ModelError(
                    f"model.name: the model needs more than {_MEMORY / 2**30:.1f} GiB of memory for a few rows; export "
                    f"a smaller model (onnxruntime: {error!s:.300})"
                ) from error
            raise ModelRaised(f"onnxruntime: {shortened(error)}{way_out(ROWS, str(error))}") from error

    def _fed(self, rows: Floats) -> dict[str, Any]:
        """Return the inputs for rows."""
        fed: dict[str, Any] = {}
        slot = 0
        for one in self._inputs:
            columns = rows[:, slot : slot + len(one.features)]
            if one.type == "text":
                values: Any = np.empty(columns.shape, object)
                for place in range(columns.shape[1]):
                    texts = self._categories[slot + place]
                    values[:, place] = [_text(code, texts) for code in columns[:, place].tolist()]
            elif one.whole:
                values = np.rint(np.where(np.isnan(columns), 0.0, columns)).astype(one.type)
            else:
                with np.errstate(over="ignore"):
                    values = columns.astype(one.type)
            fed[one.name] = values[:, 0] if one.flat else values
            slot += len(one.features)
        return fed

    def _read(self, answers: Mapping[str, Any], count: int) -> Output:
        """Return what onnxruntime answered for `count` rows."""
        table = None if self._table is None else self._numbers(answers[self._table])
        columns = len(self.classes) or 1
        if self._label is None and columns == 2 and table is not None and table.size == count:
            second = table.reshape(count)
            table = np.stack([1.0 - second, second], axis=1)
        if table is not None and table.size != count * columns:
            raise ModelError(
                f"model.outputs: expected {columns} number{'s' * (columns > 1)} for each row in the model's output "
                f"{self._table!r}, got an array of shape {table.shape} for {count} rows; "
                f"{probability_remedy(self.classes, self._label)}"
            )
        if self._label is None and not self.classes:
            return Output.of_numbers(np.asarray(table).reshape(count, 1))
        if self._label is None:
            values = np.asarray(table).reshape(count, columns)
            return Output(values, np.argmax(values, axis=1).astype(np.int64))
        places = {key: place for place, key in enumerate(self._keys)}
        labels = np.array([places.get(key, NO_LABEL) for key in self._labels(answers[self._label], count)], np.int64)
        if table is not None:
            return Output(table.reshape(count, columns), labels)
        values = np.zeros((count, columns))
        known = labels >= 0
        values[np.flatnonzero(known), labels[known]] = 1.0
        return Output(values, labels)

    def _numbers(self, answer: Any) -> Floats:
        """Return what onnxruntime answered as numbers, which another type than the file declares may not be."""
        try:
            return np.asarray(answer, np.float64)
        except (TypeError, ValueError) as error:
            raise ModelError(
                f"model.outputs: expected numbers in the model's output {self._table!r}, got {error!s:.100}; "
                f"{probability_remedy(self.classes, self._label)}"
            ) from error

    def _labels(self, answer: Any, count: int) -> list[int | str]:
        """Return what onnxruntime answered as labels of `count` rows."""
        found = np.asarray(answer)
        if found.size != count:
            raise ModelError(
                f"model.outputs: expected one label for each row in the model's output {self._label!r}, got an array "
                f"of shape {found.shape} for {count} rows; {TARGETS}"
            )
        return [*found.ravel().tolist()]

    def _taken(self, rows: Floats) -> Floats:
        """Return the rows that the model takes."""
        try:
            self._call(rows)
            return rows
        except ModelRaised as error:
            taken = rows[[place for place in range(len(rows)) if self._takes(rows[place : place + 1])]]
            if not len(taken):
                self.notices = (f"{UNANSWERED}: {error}",)
            return taken

    def _takes(self, row: Floats) -> bool:
        try:
            self._call(row)
            return True
        except ModelRaised:
            return False

    def _influence(self, rows: Floats) -> float:
        """Return how much a row's result depends on other rows, by a trial; -1 if no bit does."""
        together = self._call(rows).values
        most = -1.0
        for part, wanted in (
            (rows[::-1], together[::-1]),
            *((rows[place : place + 1], together[place : place + 1]) for place in range(0, len(rows), 3)),
        ):
            found = self._call(part).values
            if found.tobytes() != np.ascontiguousarray(wanted).tobytes():
                apart = np.nan_to_num(np.abs(found - wanted) / (1.0 + np.abs(wanted)))
                most = max(most, float(apart.max()))
        return most


@cache
def _bound_memory(onnxruntime: Any) -> None:
    """Let all models of this process share memory of a limited size."""
    kind = onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR
    place = onnxruntime.OrtMemoryInfo("Cpu", kind, 0, onnxruntime.OrtMemType.DEFAULT)
    limits = onnxruntime.OrtArenaCfg({"max_mem": _MEMORY, "arena_extend_strategy": 1})  # 1: as much as is needed
    onnxruntime.create_and_register_allocator(place, limits)


def _text(code: float, texts: Sequence[str]) -> str:
    """Return the text of a code; empty where it is absent."""
    if code != code:
        return ""
    return texts[int(code)] if code < len(texts) else f"\0unseen {code}"
