"""Runs of all stages on this machine: as processes on a broker, or as a plain loop without Kafka."""
