"""The laboratory: batch and exact references of the methods, and the experiments of the papers.

It is a package of its own (`pip install glasstream-lab`), which adds the commands `glasstream paper` and
`glasstream gbmap`. The application never imports it.
"""
