"""Commands that the laboratory adds to `glasstream`."""
