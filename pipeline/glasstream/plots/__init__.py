"""Plots of what is published, or of what an estimator holds: records in, a matplotlib figure out (extra `plot`)."""
