"""`explain-at`: repeat the explanation of an event from the log."""
