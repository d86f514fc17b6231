"""Detectors that watch series of numbers; `settings` registers them."""
