"""Metrics, probes and the watchdog of a worker."""
