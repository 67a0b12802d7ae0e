"""The files that pages and docstrings read, as an archive of the site, and a link to it on each of these pages."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from docutils import nodes
    from sphinx.application import Sphinx

CHECKOUT = Path(__file__).parents[1]
FOLDERS = ("docs", "dataformats", "backends", "codecs", "loaders")
NAMED = re.compile(r"tests/golden/[\w./*-]+")
ARCHIVE = "_static/example-files.zip"


def example_files() -> list[Path]:
    """Return the files below `tests/golden` that a page or a docstring names; a name may be the start of several."""
    texts = [path for folder in FOLDERS for kind in ("md", "py") for path in (CHECKOUT / folder).rglob(f"*.{kind}")]
    starts = {name for path in texts for name in NAMED.findall(path.read_text("utf-8"))}
    found = {path for start in starts for path in CHECKOUT.glob(f"{start.rstrip('.')}*")}
    return sorted({file for path in found for file in [path, *path.rglob("*")] if file.is_file()})


def add_link(app: Sphinx, document: nodes.document) -> None:
    """Begin the page with the link, if it names such files; the first page of the site has its own."""
    from docutils import nodes  # the tests, which call `example_files`, lack it

    page = app.env.docname
    section = next(iter(document.findall(nodes.section)), None)
    if page == "index" or section is None or not NAMED.search(document.astext()):
        return
    link = nodes.reference("", "these files", refuri="../" * page.count("/") + ARCHIVE)
    words = nodes.Text("The examples run at the top of a checkout, or where you unpack "), link, nodes.Text(".")
    section.insert(1, nodes.paragraph("", "", *words, classes=["example-files"]))


def write_archive(app: Sphinx, error: Exception | None) -> None:
    """Write the archive into the site."""
    if error is None and app.builder.format == "html":
        with zipfile.ZipFile(app.outdir / ARCHIVE, "w", zipfile.ZIP_DEFLATED) as archive:
            for file in example_files():
                archive.write(file, file.relative_to(CHECKOUT))


def setup(app: Sphinx) -> dict[str, bool]:
    """Connect the hooks; called by Sphinx."""
    app.connect("doctree-read", add_link)
    app.connect("build-finished", write_archive)
    return {"parallel_read_safe": True}
