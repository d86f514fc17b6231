"""River models while they learn: which there are, how a stream asks them, and what replaces functions of River.

The replacements are faster and keep every bit of River's answers and state.
"""
