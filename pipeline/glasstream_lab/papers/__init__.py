"""Experiments of the papers, each a subclass of `experiment.Experiment` in a module of its own.

An experiment splits its work into tasks that run in separate processes (`tasks`). It turns their results into a table
of the paper's numbers and ours (`comparison`), and perhaps into a figure. `registry` lists the experiments. To add
one, write its module and add a line there; `glasstream paper` needs no change.
"""
