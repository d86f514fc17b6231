"""The windows, maps and scores with which a stream's new rows are compared."""
