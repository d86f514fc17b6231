"""GBMAP on data sets: tables from CSV files, nearest neighbours, and differences of maps."""
