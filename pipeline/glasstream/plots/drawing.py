"""The figure that plots draw on. Imports matplotlib: `glasstream.plots.canvas` does so when a plot is asked for."""

import warnings
from io import BytesIO
from typing import Any

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure


class Drawing(Figure):
    """A figure that belongs to no window and no global state; a notebook shows it as it is."""

    def __init__(self, width: float, height: float) -> None:
        super().__init__(figsize=(width, height), layout="constrained", dpi=110)
        FigureCanvasAgg(self)

    def savefig(self, *args: Any, **kwargs: Any) -> None:
        """As of `Figure`, without its warning of each character that the font lacks, for which a box is drawn."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"Glyph \d+ .*missing from", UserWarning)
            super().savefig(*args, **kwargs)

    def _repr_png_(self) -> bytes:
        png = BytesIO()
        self.savefig(png, format="png")
        return png.getvalue()
