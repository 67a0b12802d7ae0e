"""A Ray cluster of two nodes on this machine, in a network namespace of its own: `python -m` it with a folder.

Converts on it while a worker is killed and then a node, reads with Ray Data, and writes the findings to `found.json`.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import struct
import sys
import time
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Any

import dataformats

DIGITS = str(Path(__file__).parents[2] / "golden" / "real" / "digits-*.tfrecord")
OPTIONS: dict[str, Any] = {"format": "ffrecord", "shard_records": 100}
KILLED, DRIVER = "RAY_TEST_KILLED", "RAY_TEST_DRIVER"


def same(record: dict[str, Any]) -> dict[str, Any]:
    """Return the record; the first worker that comes to label 9 dies."""
    time.sleep(0.0005)
    if record["label"] == 9 and os.environ.get(DRIVER) not in (None, str(os.getpid())):
        try:
            os.close(os.open(os.environ[KILLED], os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return record
        os.kill(os.getpid(), signal.SIGKILL)
    return record


def fails(record: dict[str, Any]) -> dict[str, Any]:
    raise dataformats.SpecError("no such record", field="label")


def loopback_up() -> None:
    """Bring up `lo`: a new network namespace has it, but down."""
    up, running, set_flags = 0x1, 0x40, 0x8914
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, set_flags, struct.pack("16sh14x", b"lo", up | running))


def main(folder: Path) -> None:
    """Run, and write the findings."""
    loopback_up()
    import ray
    from ray.cluster_utils import Cluster

    from dataformats.interop.ray import RayExecutor, RecordDatasource

    dataformats.convert(DIGITS, folder / "alone", map=same, **OPTIONS)
    os.environ |= {KILLED: str(folder / "killed"), DRIVER: str(os.getpid())}
    node = {"num_cpus": 1, "object_store_memory": 100 * 2**20, "node_ip_address": "127.0.0.1"}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    second = [cluster.add_node(**node)]
    cluster.wait_for_nodes()
    found: dict[str, Any] = {}

    def progress(done: int, n: int) -> None:
        if done > n / 3 and second:
            cluster.remove_node(second.pop(), allow_graceful=False)

    with RayExecutor(cluster.address) as executor:
        found["cpus"] = executor._max_workers
        report = dataformats.convert(
            DIGITS, folder / "cluster", map=same, executor=executor, progress=progress, **OPTIONS
        )
        found |= {"records": report.records, "files": report.files, "nodes_left": 1 - len(second)}
        found["differences"] = dataformats.verify(
            folder / "cluster", against=DIGITS, shuffle_seed=1, executor=executor
        ).differences
        try:
            dataformats.convert(DIGITS, folder / "failing", map=fails, executor=executor, **OPTIONS)
        except dataformats.SpecError as error:
            found["error"] = str(error)
    broken = RayExecutor(retries=0).submit(os._exit, 1).exception()
    found["broken"] = isinstance(broken, BrokenExecutor)
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    digits = ray.data.read_datasource(RecordDatasource(DIGITS), override_num_blocks=5)
    found["labels"] = [row["label"] for row in digits.iter_rows()]
    (folder / "found.json").write_text(json.dumps(found), "utf-8")
    ray.shutdown()
    cluster.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
