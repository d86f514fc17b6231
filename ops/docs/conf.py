"""Configuration of the documentation site, which Sphinx builds from the Markdown of the repository (`./ops/site`)."""

import re
import tomllib
from pathlib import Path
from shutil import copyfile

from docutils import nodes
from sphinx.application import Sphinx

NAVIGATION = {
    "Tutorials": ("tutorial", "running", "notebook"),
    "How-to guides": (
        *("own-model", "checks", "production-model", "intake", "labels", "consuming", "page", "gbmap"),
        *("operating", "containers", "kubernetes", "security", "watching", "notify", "runbook"),
        *("/CONTRIBUTING", "releasing"),
    ),
    "Reference": (
        *("settings", "all-settings", "events", "topics", "api", "performance", "glossary"),
        *("/CHANGELOG", "/ops/changes"),
    ),
    "Explanation": (
        "methods",
        "incidents",
        "gallery",
        "design",
        "/ops/decisions/README",
        "deviations",
        "papers",
        "alternatives",
    ),
}
"""Pages in the order of the sidebar, by their kind: tutorial, how-to guide, reference or explanation (Diátaxis)."""

LANGUAGES = {
    r">>> ": "pycon",
    r"\$ ": "console",
    r"[{]": "json",
    r"\[|# \w+\.toml\n": "toml",
    r"import |from |# [\w/.]+\.py\n": "python",
}
"""Languages of blocks of code, by how a block begins: the pages indent code, and indented code names no language."""

PROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"

project = "Glasstream"
version = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["version"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
root_doc = "README"
include_patterns = ["*.md", "ops/*.md", "ops/docs/*.md", "ops/docs/*.rst", "ops/decisions/*.md"]

# The pages are written for a code host, which does not know these parts of MyST's syntax.
myst_disable_syntax = ["myst_block_break", "myst_line_comment", "myst_role", "myst_target"]
myst_heading_anchors = 6

# Docstrings have names in single backticks, sections of numpydoc, and types in signatures only.
default_role = "code"
autodoc_member_order = "bysource"
autodoc_typehints = "description"
autodoc_typehints_description_target = "documented"
napoleon_google_docstring = False
napoleon_use_ivar = True
python_use_unqualified_type_names = True
smartquotes_action = "D"

html_theme = "furo"
html_title = f"{project} {version}"
html_favicon = "../../pipeline/glasstream/app/page/static/icon.svg"
html_copy_source = False
html_show_copyright = False
pygments_style = "friendly"
pygments_dark_style = "native"


def add_navigation(_: Sphinx, docname: str, source: list[str]) -> None:
    """Append tables of contents, which a code host would show as code, to the two pages that have some."""
    if docname == "README":
        for caption, names in NAVIGATION.items():
            paths = [name if name.startswith("/") else f"/ops/docs/{name}" for name in names]
            source[0] += "\n".join(["\n```{toctree}", ":hidden:", f":caption: {caption}", "", *paths, "```\n"])
    elif docname == "ops/decisions/README":
        source[0] += "\n".join(["\n```{toctree}", ":glob:", "", "[0-9]*", "```\n"])


def choose_languages(_: Sphinx, document: nodes.document) -> None:
    """Highlight the blocks of code that name no language."""
    for block in document.findall(nodes.literal_block):
        if block.get("language", "none") in ("default", "none"):
            fitting = (name for start, name in LANGUAGES.items() if re.match(start, block.astext()))
            block["language"] = next(fitting, "text")


def skip_foreign(_: Sphinx, kind: str, name: str, member: object, skip: bool, options: object) -> bool | None:
    """Leave out methods that other packages add to our classes, such as scikit-learn's routing of metadata."""
    module = getattr(member, "__module__", None) or "glasstream"
    return None if module.startswith("glasstream") else True


def keep_drawings(_: Sphinx, kind: str, name: str, member: object, options: object, lines: list[str]) -> None:
    """Show a tree that is drawn in a docstring as it is."""
    branches = [number for number, line in enumerate(lines) if line.startswith(("├", "│", "└", "    └", "    ├"))]
    if branches:
        first, last = branches[0] - 1, branches[-1] + 1
        lines[first:last] = ["::", "", *(f"    {line}" for line in lines[first:last]), ""]


def add_index(app: Sphinx, error: Exception | None) -> None:
    """Let the README also be the page that a server shows for the folder."""
    if error is None and app.builder.format == "html":
        copyfile(app.outdir / "README.html", app.outdir / "index.html")


def setup(app: Sphinx) -> None:
    """Register the functions above."""
    app.connect("source-read", add_navigation)
    app.connect("doctree-read", choose_languages)
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("autodoc-process-docstring", keep_drawings)
    app.connect("build-finished", add_index)
