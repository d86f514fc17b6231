"""Sequential tests of rows, labels, loss and explanations, and the verdicts on what they find."""
