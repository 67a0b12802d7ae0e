"""`dataformats view`: show a dataset in the browser."""

from __future__ import annotations

import os
import sys
import threading
import webbrowser
from contextlib import suppress
from typing import Annotated

import typer

from dataformats.cli.options import Checksums, Format, Paths, Payload, SpecTexts, one_or_all, open_arguments
from dataformats.cli.output import print_fact
from dataformats.cli.saved_state import read_state

__all__ = ["view"]

Port = Annotated[int, typer.Option(min=0, max=65535, metavar="N", help="The port; 0 takes any free one.")]
Browser = Annotated[bool, typer.Option("--browser/--no-browser", help="Open the browser; the address is printed too.")]
StatePath = Annotated[
    str | None,
    typer.Option("--state", metavar="STATE", help="A file with a state_dict() of a run as JSON: shows its steps."),
]
Step = Annotated[
    int | None, typer.Option("--step", min=0, metavar="N", help="The step to show. Default: the last one.")
]


def view(
    paths: Paths,
    port: Port = 0,
    browser: Browser = True,
    state: StatePath = None,
    step: Step = None,
    format: Format = None,
    payload: Payload = None,
    spec: SpecTexts = None,
    checksums: Checksums = True,
) -> None:
    """Show records, pictures and statistics in the browser.

    The command runs until Ctrl-C. The page is served to this machine alone, at an address with a secret; it loads
    nothing from other hosts.
    """
    from dataformats.viewer.dataset import ViewedDataset
    from dataformats.viewer.run import ViewedRun
    from dataformats.viewer.server import serve

    if step is not None and state is None:
        raise typer.BadParameter("takes --state", param_hint="--step")
    run = None if state is None else ViewedRun(read_state(state, "--state"), step)

    def ready(address: str) -> None:
        print_fact("view", address)
        print_fact("end", "Ctrl-C")
        if browser and (sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
            threading.Thread(target=webbrowser.open, args=[address], daemon=True).start()  # some end with the browser

    dataset = ViewedDataset(one_or_all(paths), **open_arguments(format, payload, spec, checksums=checksums))
    with suppress(KeyboardInterrupt):  # which is how it ends
        serve(dataset, port, ready, run)
