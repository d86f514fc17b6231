"""From bytes to rows: decoding, admission, encoding of features, waiting labels, and messages of other topics.

What comes in is never trusted here; what goes out is a row or a dead letter with a reason. This package knows no model.
It does not know where messages come from: only `sources` opens files.
"""
