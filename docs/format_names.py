"""The directive `format-names` of Sphinx: the names by which each format is recognized, from the registry."""

from __future__ import annotations

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from dataformats.interfaces import Backend
from dataformats.registry import backends


class FormatNames(SphinxDirective):
    """The directive: a table of names, each row with a link to the section of the format on the same page."""

    def run(self) -> list[nodes.Node]:
        shipped = [backends.get(name) for name in backends if backends.shipped(name)]
        rows = [f"| {names(backend)} | [](#{backend.name}) |" for backend in shipped]
        return self.parse_text_to_nodes("\n".join(["| name | format |", "|---|---|", *rows]))


def names(backend: Backend) -> str:
    """Return the endings of a format in Markdown; endings that follow any of the others, such as `.gz`, once."""
    plain = [suffix for suffix in backend.suffixes if suffix.count(".") == 1]
    more = list(dict.fromkeys("." + suffix.rpartition(".")[2] for suffix in backend.suffixes if suffix not in plain))
    if {*backend.suffixes} != {suffix + end for suffix in plain for end in ("", *more)}:
        plain, more = [*backend.suffixes], []
    found = ["a folder"] * backend.in_folders + [f"`{suffix}`" for suffix in plain]
    return ", ".join(found) + (f"; each also with {', '.join(f'`{end}`' for end in more)}" if more else "")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive; called by Sphinx."""
    app.add_directive("format-names", FormatNames)
    return {"parallel_read_safe": True}
