"""The figure that plots draw on.

This module imports matplotlib. `glasstream.app.plots.canvas` imports it when a plot is requested.
"""

import warnings
from io import BytesIO
from typing import Any

from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text


class Drawing(Figure):
    """A figure without window and global state. A notebook displays it directly.

    Its texts contain names of users, so no text is read as a formula, although it may contain dollar signs.
    """

    def __init__(self, width: float, height: float) -> None:
        super().__init__(figsize=(width, height), layout="constrained", dpi=110)
        FigureCanvasAgg(self)

    def draw(self, renderer: Any) -> None:
        """Draw the figure like `Figure.draw`, with all texts as they are."""
        with rc_context({"text.parse_math": False, "text.usetex": False}):  # for the texts that drawing adds
            for text in self.findobj(Text):
                text.set_parse_math(False)
                text.set_usetex(False)
            super().draw(renderer)

    def savefig(self, *args: Any, **kwargs: Any) -> None:
        """Save the figure like `Figure.savefig`, without a warning for each character that the font lacks.

        Such a character is drawn as a box.
        """
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r"Glyph \d+ .*missing from", UserWarning)
            super().savefig(*args, **kwargs)

    def _repr_png_(self) -> bytes:
        png = BytesIO()
        self.savefig(png, format="png")
        return png.getvalue()
