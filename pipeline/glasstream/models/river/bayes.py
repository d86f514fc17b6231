"""River's Gaussian naive Bayes, compiled."""

import math
from typing import Any

import numpy as np

from glasstream.models.predictors.kernels.bayes import GaussianBayes
from glasstream.models.predictors.labels import Labels
from glasstream.models.predictors.slots import ABSENT, Slots


def compile_gaussian_bayes(model: Any, slots: Slots, labels: Labels) -> GaussianBayes:
    """Return the predictor of a GaussianNB.

    Raises
    ------
    NotCompilable
        The model's input includes text.
    """
    slots.all_numeric("a Gaussian naive Bayes")
    total = sum(model.class_counts.values())
    centre = np.zeros((len(model.class_counts), len(slots.names)))
    sigma = np.zeros(centre.shape)
    for row, key in enumerate(model.class_counts):
        for name, gaussian in model.gaussians.get(key, {}).items():  # indexing would add to the model
            slot = slots.slot(name)
            variance = gaussian._var
            freedom = variance.mean.n - variance.ddof
            if slot != ABSENT and freedom > 0 and variance._S / freedom > 0.0:
                centre[row, slot], sigma[row, slot] = variance.mean._mean, math.sqrt(variance._S / freedom)
    prior = [math.log(count / total) for count in model.class_counts.values()]
    return GaussianBayes(slots.names, labels.classes, labels.columns(model.class_counts), (prior, centre, sigma))
