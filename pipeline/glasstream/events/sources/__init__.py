"""Sources of events: CSV files and the bundled stream, with injected changes and delayed labels."""
