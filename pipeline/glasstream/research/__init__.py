"""Comparison and research: batch and exact references of the methods, and experiments of the papers.

No stage imports this package.
"""
