"""Observers of a stream: drift detectors, incidents and their verdicts, novelty with GBMAP, groups of rows, recorded
baselines, and comparisons of two models.

A detector knows series of numbers and rows. It does not know where they come from, and publishes nothing.
"""
