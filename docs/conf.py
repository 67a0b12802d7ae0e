"""Sphinx configuration. `make docs` builds the site, without network and with warnings as errors."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sphinx.application import Sphinx

import dataformats

sys.path.insert(0, str(Path(__file__).parent))  # finds charts.py and diagrams.py

project = "dataformats"
copyright = "the dataformats authors"  # noqa: A001  # the name that Sphinx reads
release = version = dataformats.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "charts", "diagrams"]
exclude_patterns = ["_build", "conf.py"]
default_role = "code"  # docstrings write `name` in the way of Markdown
nitpicky = True
# Types of other projects and type variables lead nowhere: the build asks no network for inventories.
nitpick_ignore_regex = [
    ("py:.*", r"(?!dataformats\.).*"),
    ("py:class", r"dataformats\.(registry|indexing\.indexed_reader|indexing\.lookup|reading\.conditions|compat\.tfrecord\.iterator_utils|loaders\.skips)\.\w+"),
]
suppress_warnings = ["ref.python"]  # the names of originals occur in several drop-in modules

myst_heading_anchors = 3

napoleon_numpy_docstring = False
autodoc_member_order = "bysource"
# Large, and only for signatures.
autodoc_mock_imports = ["torch", "ray", "pyarrow", "polars", "datasets", "duckdb", "grain"]
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 100

highlight_language = "text"  # blocks without a language are no Python

html_theme = "furo"
html_title = f"dataformats {release}"
html_copy_source = False

LITERAL = re.compile(r"(`[^`]*`)")
TRAILING_UNDERSCORE = re.compile(r"(?<=\w)_(?!\w)")


def escape_underscores(app: Sphinx, kind: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Escape `_` at the end of a word in a docstring: reStructuredText takes `np.bool_` for a link."""
    for number, line in enumerate(lines):
        if line.lstrip().startswith((">>>", "...")):
            continue
        parts = LITERAL.split(line)
        parts[::2] = [TRAILING_UNDERSCORE.sub(r"\\_", part) for part in parts[::2]]
        lines[number] = "".join(parts)


def setup(app: Sphinx) -> None:
    """Connect the hook; called by Sphinx."""
    app.connect("autodoc-process-docstring", escape_underscores, priority=600)  # runs after napoleon
