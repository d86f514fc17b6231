"""The explanation methods, as functions of rows, a predictor and draws.

`sampling` holds what is kept of earlier rows. Each method has one place: `pfi`, `sage`, `pdp`, which say what it draws,
how a block is explained, and how rows are smoothed; `registry` lists them. `estimators` are the methods for notebooks.

A method knows predictors, but neither how they learn, nor the detectors, nor what a stage does with its numbers.
"""
