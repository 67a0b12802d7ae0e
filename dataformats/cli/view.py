"""`dataformats view`: show a dataset in the browser."""

from __future__ import annotations

import os
import re
import sys
import threading
import webbrowser
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from dataformats.cli import options
from dataformats.cli.exit_codes import FINDING
from dataformats.cli.output import print_fact
from dataformats.cli.progress import bar
from dataformats.cli.saved_state import read_state

if TYPE_CHECKING:
    from dataformats.viewer.dataset import ViewedDataset


@options.paths
@options.option("against", "Any", "Show where this dataset differs, record by record.")
@options.option("export", "Any", "Write a page without scripts to this new folder, and end.", metavar="FOLDER")
@options.option("records", "int", "How many records --export shows. Default: 50.", type=click.IntRange(0, 1000))
@options.option("port", "int", "The port; 0 takes any free one.", 0, type=click.IntRange(0, 65535))
@options.option("browser", "bool", "Open the browser; the address is printed too.", True)
@options.option("state", "Any", "A file with a state_dict() of a run as JSON: shows its steps.", metavar="STATE")
@options.option("step", "int", "The step to show. Default: the last one.", type=click.IntRange(0))
@options.option(
    "token",
    "",
    "The secret in the address; with --port, links stay valid after a restart. Default: a new random one.",
    metavar="TOKEN",
    envvar="DATAFORMATS_TOKEN",
    show_envvar=True,
)
@options.reading
@options.checksums
def view(
    paths: str | list[str],
    against: str | None,
    export: str | None,
    records: int | None,
    port: int,
    browser: bool,
    state: str | None,
    step: int | None,
    token: str | None,
    **reading: Any,
) -> None:
    """Show records, pictures and statistics in the browser.

    The command runs until Ctrl-C. The page is served to this machine alone, at an address with a secret; it loads
    nothing from other hosts. --export writes a data card instead: the file index.html, which needs no server.
    """
    from dataformats.viewer.dataset import ViewedDataset
    from dataformats.viewer.run import ViewedRun
    from dataformats.viewer.server import serve

    if token is not None and not re.fullmatch(r"[A-Za-z0-9_-]{16,}", token):  # the error does not show it
        what = f"expected at least 16 letters A-Z and a-z, digits, - and _ alone, found {len(token)} characters"
        raise click.BadParameter(f"{what}. openssl rand -hex 16 makes one", param_hint="--token")
    for option_name, given, missing in (
        ("--step", step is not None, "takes --state" if state is None else ""),
        ("--records", records is not None, "takes --export" if export is None else ""),
        ("--against", against is not None, "takes no --state" if state is not None else ""),
        ("--export", export is not None, "takes no --against or --state" if against is not None or state else ""),
    ):
        if given and missing:
            raise click.BadParameter(missing, param_hint=option_name)
    run = None if state is None else ViewedRun(read_state(state, "--state"), step)
    arguments = options.arguments(reading)
    dataset = ViewedDataset(paths, **arguments)
    if export is not None:
        _export(dataset, export, 50 if records is None else records)
        return
    other = None if against is None else ViewedDataset(against, **arguments)

    def ready(address: str) -> None:
        print_fact("view", address)
        print_fact("end", "Ctrl-C")
        if browser and (sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()  # some end with the browser

    with suppress(KeyboardInterrupt):  # which is how it ends
        serve(dataset, port, ready, run=run, against=other, token=token)


def _export(dataset: ViewedDataset, folder: str, n: int) -> None:
    from dataformats.storage.paths import is_local, local_path
    from dataformats.viewer.card import export_card

    if not is_local(folder):
        raise click.BadParameter("expected a folder on this machine, found a URL", param_hint="--export")
    with bar("reading") as progress:
        damaged = export_card(dataset, local_path(folder), n, progress)
    print_fact("card", local_path(folder) / "index.html")
    if damaged:
        print_fact("damaged records", damaged)
        raise SystemExit(FINDING)
