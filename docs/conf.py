"""Sphinx configuration. `make docs` builds the site, without network and with warnings as errors."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment

import dataformats
from dataformats.registry import backends

sys.path.insert(0, str(Path(__file__).parent))  # finds charts.py and others

project = "dataformats"
copyright = "the dataformats authors"  # noqa: A001  # the name that Sphinx reads
release = version = dataformats.__version__

extensions = [
    "myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton", "sphinx_design",
    "charts", "diagrams", "example_files", "format_names",
]  # fmt: skip
exclude_patterns = ["_build", "conf.py"]

# The tutorials are notebooks, each run in a new folder. A warning about an exception ends the build.
nb_execution_mode = "force"
nb_execution_in_temp = True
nb_execution_show_tb = True
nb_merge_streams = True
nb_execution_timeout = 120
os.environ["PYTHONSTARTUP"] = str(Path(__file__).with_name("notebook_start.py"))
os.environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # finds dataformats

default_role = "code"  # docstrings write `name` in the way of Markdown
nitpicky = True
# Types of other projects and type variables lead nowhere: the build asks no network for inventories.
nitpick_ignore_regex = [
    ("py:.*", r"(?!dataformats(_compat)?\.).*"),
    ("py:class", r"dataformats\.(registry|indexing\.file_index|indexing\.files_reader|indexing\.files_table|indexing\.lookup|indexing\.union_reader|indexing\.union_table|reading\.conditions|codecs\.video_packets|loaders\.skips|storage\.links)\.\w+"),
    ("py:class", r"dataformats_compat\.tfrecord\.iterator_utils\.T"),
]
suppress_warnings = ["ref.python"]  # the names of originals occur in several drop-in modules

myst_enable_extensions = ["colon_fence"]  # cards hold Markdown
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
html_use_index = False  # the search has its entries
html_logo = html_favicon = "../dataformats/viewer/static/icon.svg"
html_static_path = ["static"]
html_css_files = ["site.css"]
pygments_dark_style = "github-dark"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#2457d6", "color-brand-content": "#2457d6"},
    "dark_css_variables": {"color-brand-primary": "#86a8ff", "color-brand-content": "#86a8ff"},
}

# Words that people search for, and the page that answers. The names and suffixes of formats lead to their pages.
SEARCHED = {
    "arrow": "sql dataframe pandas polars duckdb huggingface",
    "conversion": "convert",
    "determinism": "seed shuffle",
    "install": "pip",
    "loading": "resume checkpoint state epoch",
    "object-stores": "s3 gcs gs azure http url bucket credentials",
    "performance": "speed benchmark",
    "pytorch": "gpu cuda ddp",
    "repair": "corrupt damaged",
    "tutorials/training": "kill killed preempt preemption interrupt crash slurm",
    "viewer": "view browser",
    "which-format": "format suffix",
}

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


def searched_words(page: str) -> list[str]:
    """Return the words for which the search shows a page first."""
    folder, _, name = page.rpartition("/")
    is_format = folder == "formats" and name in backends
    return [name, *backends.get(name).suffixes] if is_format else SEARCHED.get(page, "").split()


def add_searched_words(app: Sphinx, document: nodes.document) -> None:
    """Make main entries of the index, which the search shows first."""
    entries = [("single", word, "", "main", None) for word in searched_words(app.env.docname)]
    document += addnodes.index(entries=entries)


def pages_with_words(app: Sphinx, env: BuildEnvironment) -> list[str]:
    """Return the pages to write again: an incremental build forgets their entries."""
    return [page for page in env.found_docs if searched_words(page)]


def keep_notebooks_in_build(app: Sphinx) -> None:
    """Put notebooks and their pictures into the folder of the build, not beside it."""
    app.env.mystnb_config = app.env.mystnb_config.copy(output_folder=str(app.outdir / "notebooks"))


def setup(app: Sphinx) -> None:
    """Connect the hooks; called by Sphinx."""
    app.connect("env-updated", pages_with_words)
    app.connect("doctree-read", add_searched_words)
    app.connect("builder-inited", keep_notebooks_in_build)
    app.connect("autodoc-process-docstring", escape_underscores, priority=600)  # runs after napoleon
