"""GBMAP: gradient boosting mappings (paper 003): maps of rows, distances in them, and the drift indicator."""
