"""Fuzzing of everything that the product reads."""
