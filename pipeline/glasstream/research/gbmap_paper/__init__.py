"""Experiments of the GBMAP paper (003)."""
