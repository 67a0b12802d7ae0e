"""Serve the viewer on 127.0.0.1."""

from __future__ import annotations

import os
import secrets
import socket
from typing import TYPE_CHECKING

from dataformats.errors import MissingExtraError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dataformats.viewer.dataset import ViewedDataset
    from dataformats.viewer.run import ViewedRun


def serve(
    dataset: ViewedDataset,
    port: int,
    ready: Callable[[str], None],
    *,
    run: ViewedRun | None = None,
    against: ViewedDataset | None = None,
    token: str | None = None,
) -> None:
    """Serve a dataset to this machine until Ctrl-C.

    Args:
        dataset: The dataset to show.
        port: 0 takes any free one.
        ready: Called with the address, which has a token, when the server listens.
        run: The training run whose steps are shown.
        against: The dataset to compare with; then there is no run.
        token: The secret in the address, of characters that URLs can hold; `None` makes a random one.

    Raises:
        OSError: The port is taken.
        MissingExtraError: starlette or uvicorn is not installed.
    """
    try:
        import uvicorn

        from dataformats.viewer.app import comparison_app, viewer_app
    except ImportError as error:
        raise MissingExtraError("the viewer", extra="view") from error
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("127.0.0.1", port))
        except OSError as error:
            raise OSError(error.errno, os.strerror(error.errno or 0), f"127.0.0.1:{port}") from error
        listener.listen()
        token = secrets.token_urlsafe(24) if token is None else token
        ready(f"http://127.0.0.1:{listener.getsockname()[1]}/{token}/")
        config = uvicorn.Config(
            viewer_app(dataset, token, run) if against is None else comparison_app(dataset, against, token),
            access_log=False,
            log_level="warning",
            lifespan="off",
            ws="none",
            http="h11",
            loop="asyncio",
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        uvicorn.Server(config).run(sockets=[listener])
