"""ONNX files of trees, linear forms, encoders and scalers."""

import random

from glasstream.errors import ModelError
from tests.fixed.mutations import mutated, outcome, unharmed
from tests.fuzz.mutations import mutate_bytes
from tests.fuzz.target import Target


class OnnxFiles(Target):
    """A file is refused, or its model answers as onnxruntime does."""

    name = "onnx_files"
    refused = (ModelError,)

    def __init__(self) -> None:
        self._files = unharmed()
        for model, names in self._files:
            outcome(model.SerializeToString(), names)

    def run(self, random: random.Random) -> str:
        model, names = random.choice(self._files)
        if random.random() < 0.1:
            return outcome(mutate_bytes(random, model.SerializeToString()), names)
        return outcome(mutated(random, model), names)
