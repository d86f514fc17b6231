"""Attributions: why one event was predicted as it was, by interventional Shapley values against background rows."""
