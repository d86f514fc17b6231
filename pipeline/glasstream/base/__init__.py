"""What every other package uses: errors, keyed random draws, compiled kernels, ADWIN's window, declared forms, marks of
settings.

This package knows nothing of events, models or Kafka. It imports no other package of the application.
"""
