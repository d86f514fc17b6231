"""Plots of published records, or of an estimator's results: records in, a matplotlib figure out (extra `plot`)."""
