"""The experiments by name. Modules are imported when they are needed: some load scikit-learn."""

from importlib import import_module
from typing import Final

from glasstream_lab.papers.experiment import Experiment

EXPERIMENTS: Final = {
    "ipfi-table1": "ipfi_table1:Table1",
    "ipfi-drift": "ipfi_drift:Drift",
    "ipfi-laws": "ipfi_laws:Laws",
    "ipfi-truth": "ipfi_truth:Truth",
    "ipfi-parameters": "ipfi_parameters:Parameters",
    "isage-truth": "isage_truth:Truth",
    "isage-static": "isage_static:Static",
    "isage-bounds": "isage_bounds:Bounds",
    "isage-conditional": "isage_conditional:Conditional",
    "isage-mdi": "isage_mdi:Mdi",
    "ipdp-law": "ipdp_law:Law",
    "ipdp-hyperplane": "ipdp_streams:Hyperplane",
    "ipdp-agrawal": "ipdp_streams:Agrawal",
    "ipdp-elec2": "ipdp_streams:Elec2",
    "ipdp-california": "ipdp_california:California",
    "gbmap-table3": "gbmap_table3:Table3",
    "gbmap-table4": "gbmap_table4:Table4",
    "gbmap-table5": "gbmap_table5:Table5",
    "gbmap-knn": "gbmap_knn:Knn",
    "gbmap-drift": "gbmap_drift:Drift",
    "gbmap-views": "gbmap_views:Views",
}
"""Module and class of each experiment."""


def experiment(name: str) -> Experiment:
    """Return an experiment of `EXPERIMENTS`."""
    module, _, kind = EXPERIMENTS[name].partition(":")
    found: Experiment = getattr(import_module(f"glasstream_lab.papers.{module}"), kind)()
    return found
