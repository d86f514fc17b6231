"""ONNX files of trees, linear forms, encoders and scalers."""

import random

from glasstream.base.errors import ModelError
from glasstream.kafka.trial import Trials
from tests.fuzz.mutations import mutate_bytes
from tests.fuzz.target import Target
from tests.support.onnx_mutations import mutated, outcome, unharmed


class OnnxFiles(Target):
    """A file is refused, or its model answers as onnxruntime does."""

    name = "onnx_files"
    refused = (ModelError,)
    share = 6.0

    def __init__(self) -> None:
        self._files = unharmed()
        for model, names in self._files:
            outcome(model.SerializeToString(), names)

    def run(self, random: random.Random) -> str:
        return outcome(*self._made(random))

    def ended(self, random: random.Random) -> str | None:
        """onnxruntime ends the process for some files: the trial, which is a child, must refuse them."""
        data, names = self._made(random)
        try:
            Trials()(data, (names, None, None))
        except ModelError:
            return "refused by the trial"
        return None

    def _made(self, random: random.Random) -> tuple[bytes, str | None]:
        model, names = random.choice(self._files)
        if random.random() < 0.1:
            return mutate_bytes(random, model.SerializeToString()), names
        return mutated(random, model), names
