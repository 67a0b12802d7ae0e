"""Epochs from S3, beside MosaicML streaming, litdata and webdataset: `python -m tests.benchmarks.object_store`.

It prints a Markdown table. One server on loopback serves all sides, which take turns in new processes, three rounds.
With `--caches` it prints what disk caches of several sizes request in later epochs, and what is the least possible.
It needs `pip install obstore s3fs psutil torch torchvision mosaicml-streaming litdata webdataset`, in an environment
of its own: `mosaicml-streaming` wants an older numpy than the other benchmarks.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

import dataformats
from dataformats.loaders.next_use import PlannedUse
from dataformats.loaders.plan import Plan
from tests.benchmarks.harness import OURS, peer
from tests.benchmarks.loaders import write_tar
from tests.benchmarks.ours import noise
from tests.deep.remote.servers import S3Folder

N, RECORD_BYTES, NUMBER_BYTES, SHARDS = 20_000, 12_288, 8, 16
BATCH, WORKERS, SHUFFLE_BUFFER = 64, 2, 1000
BUCKET = "bench"
STALL_S, SAMPLE_S, LIMIT_S = 0.05, 0.1, 120
COUNT = f"""import time, dataformats; begin = time.perf_counter()
len(dataformats.open("s3://{BUCKET}/tfrecord/")); print(time.perf_counter() - begin)"""
FIGURES = ("epoch s", "first batch s", "stalls", "longest s", "waits s", "requests", "MB", "peak MB", "disk MB")
"""The columns. Stalls are waits above 50 ms after the first batch; the longest and the sum are of these waits, too."""


@dataclass(frozen=True)
class Job:
    """The work of one rank: `options` are of its loader; `is_checked` compares all bytes with their checksums."""

    side: str
    scratch: str = ""
    is_checked: bool = False
    rank: int = 0
    ranks: int = 1
    epochs: int = 1
    work_s: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Case:
    """Some rows: `job` has more fields of the jobs, `is_cold` is true if our side has no index on its disk."""

    name: str
    latency_s: float = 0.02
    bytes_per_s: float = 0.0
    without: tuple[str, ...] = ()
    is_cold: bool = False
    job: Mapping[str, Any] = field(default_factory=dict)
    ours: Mapping[str, Any] = field(default_factory=dict)


Epoch = Callable[[], Iterable[list[bytes]]]


def ours(job: Job) -> Epoch:
    """A loader without options, but for those of the row."""
    options = {"storage": {}, **job.options}
    source = dataformats.open(f"s3://{BUCKET}/tfrecord/", **options.pop("storage"))
    loader = dataformats.Loader(source, BATCH, rank=job.rank, world_size=job.ranks, **options)
    return lambda: (list(batch["value"]) for batch in loader)


def least_recently_used(job: Job) -> Epoch:
    """A loader whose disk cache does not know the plan."""
    PlannedUse.__call__ = lambda *_, **__: None  # type: ignore[method-assign]
    return ours(job)


def streaming(job: Job) -> Epoch:
    """MDS shards, kept on the disk."""
    where = {"remote": f"s3://{BUCKET}/mds", "local": f"{job.scratch}/mds"}
    dataset = peer("streaming").StreamingDataset(**where, shuffle=True, batch_size=BATCH, **job.options)
    for stream in dataset.streams:
        stream._downloader.clean_up()  # forked workers would share its connection, and get each other's answers
    return dataloader(peer("torch.utils.data").DataLoader, dataset, lambda batch: [sample["x"] for sample in batch])


def litdata(job: Job) -> Epoch:
    """Chunks, kept on the disk. Its fast path over HTTP has no public option; views cannot be sent to a process."""
    peer("litdata.streaming.downloader")._OBSTORE_CLIENT_OPTIONS["allow_http"] = True
    where = {"input_dir": f"s3://{BUCKET}/litdata", "cache_dir": f"{job.scratch}/litdata"}
    dataset = peer("litdata").StreamingDataset(**where, shuffle=True, drop_last=False, **job.options)
    return dataloader(peer("litdata").StreamingDataLoader, dataset, lambda batch: list(map(bytes, batch)))


def webdataset(job: Job) -> Epoch:
    """Tar files by curl: shuffled shards, and a buffer that shuffles records."""
    library = peer("webdataset")
    urls = [f"{os.environ['AWS_ENDPOINT_URL']}/{BUCKET}/tar/{shard:04}.tar" for shard in range(SHARDS)]
    samples = library.WebDataset(urls, shardshuffle=SHARDS, nodesplitter=library.split_by_node, seed=1)
    batched = samples.shuffle(SHUFFLE_BUFFER).to_tuple("bin").batched(BATCH, collation_fn=list)
    batches = library.WebLoader(batched, batch_size=None, num_workers=WORKERS)
    return lambda: ([blob for (blob,) in batch] for batch in batches)


def dataloader(kind: Any, dataset: Any, collate: Callable[[Any], list[bytes]]) -> Epoch:
    """Return epochs of a `DataLoader` with worker processes."""
    batches = kind(dataset, batch_size=BATCH, num_workers=WORKERS, collate_fn=collate, persistent_workers=True)
    return lambda: batches


STREAMING, LITDATA, WEBDATASET = "MosaicML streaming", "litdata", "webdataset"
LRU = f"{OURS}, least recently used"
SIDES: dict[str, tuple[Callable[[Job], Epoch], str]] = {
    OURS: (ours, "dataformats.loaders.loader"),  # `import dataformats` alone imports names when they are used
    LRU: (least_recently_used, "dataformats.loaders.loader"),
    STREAMING: (streaming, "streaming"),
    LITDATA: (litdata, "litdata"),
    WEBDATASET: (webdataset, "webdataset"),
}
"""Name to the side and the module that a program imports before its time begins."""
PEERS = (STREAMING, LITDATA, WEBDATASET)
SIDES_WITH_CACHES = (OURS, LRU, STREAMING, LITDATA)
CACHE_SHARES, CACHE_EPOCHS, WINDOW_BLOCKS = (0.1, 0.25, 0.5, 0.75, 1.0), 4, 16
CASES = (
    Case("20 ms, all bytes checked", job={"is_checked": True}),
    Case("0 ms", 0.0),
    Case("20 ms"),
    Case("20 ms, no index on the disk", without=PEERS, is_cold=True),
    Case("20 ms, 60 MB/s, 10 ms of work a step", bytes_per_s=60e6, job={"work_s": 0.01}),
    Case(
        "20 ms, 60 MB/s, 10 ms of work a step, window_blocks=64",
        bytes_per_s=60e6,
        without=PEERS,
        job={"work_s": 0.01},
        ours={"window_blocks": 64},
    ),
    # Two ranks of streaming on one machine would have to be one node: names of its shared memory collide.
    Case("4 ranks on 4 nodes", 0.0, without=(STREAMING,), job={"ranks": 4}),
    Case("4 worker processes", 0.0, without=PEERS, ours={"worker_type": "process", "workers": 4}),
    Case("20 ms, second epoch", ours={"storage": {"cache": "disk:SCRATCH/blocks"}}, job={"epochs": 2}),
)


def run(job: Job) -> dict[str, Any]:
    """Return the numbers and the seconds of the last epoch of a rank; of a single one, with the opening."""
    make, module = SIDES[job.side]
    peer(module)
    if job.ranks > 1 and job.side != OURS:
        peer("torch.distributed").init_process_group("gloo")  # as a trainer does; the environment says where
    checksums = np.load(Path(os.environ["BENCH_FOLDER"], "checksums.npy")) if job.is_checked else None
    begin = time.perf_counter()
    epoch, epoch_s = make(job), 0.0
    waits_s: list[float] = []
    numbers: list[int] = []
    for _ in range(job.epochs):
        waits_s, numbers, asked = [], [], begin
        for batch in epoch():
            waits_s.append(time.perf_counter() - asked)
            numbers += (int.from_bytes(blob[:NUMBER_BYTES], "little") for blob in batch)
            if checksums is not None and list(map(zlib.crc32, batch)) != checksums[numbers[-len(batch) :]].tolist():
                raise ValueError(f"{job.side}: a record is damaged")
            time.sleep(job.work_s)
            asked = time.perf_counter()
        epoch_s, begin = asked - begin, asked
        print(flush=True)  # tells that the epoch is over
    return {"epoch_s": epoch_s, "waits_s": waits_s, "numbers": numbers}


def write(folder: Path, n: int) -> None:
    """Write the same records for each side, and last their checksums, if these are not there."""
    if (folder / "checksums.npy").exists():
        return
    bucket, each = folder / BUCKET, -(-n // SHARDS)
    shutil.rmtree(bucket, ignore_errors=True)
    bodies = noise(n, RECORD_BYTES - NUMBER_BYTES)
    records = [number.to_bytes(NUMBER_BYTES, "little") + body for number, body in enumerate(bodies)]
    with dataformats.create(bucket / "tfrecord", "tfrecord", payload="bytes", shard_records=each) as writer:
        writer.extend(records)
    (bucket / "tar").mkdir()
    for shard in range(SHARDS):
        write_tar(bucket / f"tar/{shard:04}.tar", iter(records[shard * each : (shard + 1) * each]))
    options = {"columns": {"x": "bytes"}, "size_limit": (each + 1) * (RECORD_BYTES + 16)}
    with peer("streaming").MDSWriter(out=str(bucket / "mds"), **options) as mds:
        for record in records:
            mds.write({"x": record})
    options = {"chunk_size": each, "num_workers": 1, "start_method": "fork", "verbose": False}
    peer("litdata").optimize(records.__getitem__, list(range(n)), str(bucket / "litdata"), **options)
    np.save(folder / "checksums.npy", np.array(list(map(zlib.crc32, records)), np.uint32))


def environment(job: Job, url: str, folder: Path, indexes: Path, port: int) -> dict[str, str]:
    """Return the environment of a side: where each looks for credentials, endpoint and ranks."""
    names = ("AWS_ENDPOINT_URL", "S3_ENDPOINT_URL")
    found = dict(os.environ) | dict.fromkeys(names, url) | {"AWS_DEFAULT_REGION": "us-east-1"}
    found |= dict.fromkeys(("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"), "any")
    found |= {"BENCH_FOLDER": str(folder), "DATAFORMATS_CACHE": str(indexes), "PYTHONWARNINGS": "ignore"}
    found["PYTHONDONTWRITEBYTECODE"] = ""  # installed packages are compiled
    if job.ranks > 1 and job.side != OURS:
        found |= dict.fromkeys(("WORLD_SIZE", "NNODES"), str(job.ranks)) | {"RANK": str(job.rank)}
        found |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    return found


def measured(case: Case, side: str, folder: Path, server: S3Folder) -> dict[str, float]:
    """Return the figures of all ranks of a side, each in a new process with an empty disk."""
    server.begin(case.latency_s, case.bytes_per_s)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        options = json.loads(json.dumps(dict(case.ours)).replace("SCRATCH", scratch)) if side == OURS else {}
        processes, first = [], Job(side, options=options, **case.job)
        for rank in range(first.ranks):
            job = replace(first, rank=rank, scratch=f"{scratch}/{rank}")
            found = environment(job, server.url, folder, Path(job.scratch if case.is_cold else folder, "indexes"), port)
            command = [sys.executable, "-m", "tests.benchmarks.object_store", "--job", json.dumps(asdict(job))]
            processes.append(subprocess.Popen(command, env=found, stdout=subprocess.PIPE, text=True))
        peaks = [0.0]
        if first.is_checked:
            threading.Thread(target=sample, args=(processes[0].pid, peaks), daemon=True).start()
        try:
            printed = [process.communicate(timeout=LIMIT_S)[0] for process in processes]
        finally:
            for process in processes:
                process.kill()
        ranks = [json.loads(lines.splitlines()[-1]) for lines in printed]
        files = [path for path in Path(scratch).rglob("*") if path.is_file()]
        disk = sum(path.stat().st_size for path in files) / 1e6
    numbers = sorted(number for rank in ranks for number in rank["numbers"])
    if numbers != list(range(len(np.load(folder / "checksums.npy")))):
        raise RuntimeError(f"{case.name}: {side} did not give each record once")
    (requests, n_bytes), later_s = server.counts, [wait_s for rank in ranks for wait_s in rank["waits_s"][1:]]
    seconds = (max(rank["epoch_s"] for rank in ranks), max(rank["waits_s"][0] for rank in ranks))
    stalls = (sum(wait_s > STALL_S for wait_s in later_s), max(later_s), sum(later_s) / len(ranks))
    return dict(zip(FIGURES, (*seconds, *stalls, requests, n_bytes / 1e6, max(peaks), disk), strict=True))


def sample(pid: int, peaks: list[float]) -> None:
    """Note the megabytes of a process and its children, with what they share counted once, until it ends."""
    psutil = peer("psutil")
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        while process.status() != psutil.STATUS_ZOMBIE:
            with suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                tree = [process, *process.children(recursive=True)]
                peaks.append(sum(one.memory_full_info().pss for one in tree) / 1e6)
            time.sleep(SAMPLE_S)


def rows(case: Case, rounds: int, folder: Path, server: S3Folder) -> Iterator[list[str]]:
    """Yield the row of each side, with medians over interleaved rounds."""
    found: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES if side not in (LRU, *case.without)}
    for _ in range(rounds):
        for side, of_side in found.items():
            of_side.append(measured(case, side, folder, server))
    for side, of_side in found.items():
        ratios = [theirs["epoch s"] / own["epoch s"] for theirs, own in zip(of_side, found[OURS], strict=True)]
        cells = [f"{statistics.median(one[name] for one in of_side):.4g}" for name in FIGURES]
        yield [case.name, side, f"{statistics.median(ratios):.2f}×", *cells]


def cache_options(side: str, n_bytes: int, scratch: str) -> dict[str, Any]:
    """Return the options of a side for a disk cache of this size."""
    if side in (STREAMING, LITDATA):
        return {"cache_limit" if side == STREAMING else "max_cache_size": n_bytes}
    return {"storage": {"cache": f"disk:{scratch}/blocks", "cache_bytes": n_bytes}, "window_blocks": WINDOW_BLOCKS}


def later_epochs(side: str, n_bytes: int, folder: Path, server: S3Folder) -> list[tuple[int, int]]:
    """Return the requests and bytes of each epoch but the first, with a disk cache of this size."""
    server.begin()
    counts = []
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        job = Job(side, scratch, epochs=CACHE_EPOCHS, options=cache_options(side, n_bytes, scratch))
        found = environment(job, server.url, folder, Path(folder, "indexes"), 0)
        command = [sys.executable, "-m", "tests.benchmarks.object_store", "--job", json.dumps(asdict(job))]
        with subprocess.Popen(command, env=found, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as run:
            stop = threading.Timer(LIMIT_S, run.kill)
            stop.start()
            assert run.stdout is not None
            counts = [server.counts for line in run.stdout if line == "\n"]
            stop.cancel()
    return [(after[0] - before[0], after[1] - before[1]) for before, after in itertools.pairwise(counts)]


def least_blocks(plan: Plan, share: float, epochs: int) -> list[float]:
    """Return the share of the blocks of each epoch but the first that no cache of a share of them can have."""
    block = plan.shuffle.block_records
    n = -(-plan.n // block)
    uses = [plan.epoch(0, epoch).block_places(np.arange(n), plan.shuffle) + epoch * plan.n for epoch in range(epochs)]
    cached: dict[int, int] = {}  # block to its next use
    missing = []
    for now, later in zip(uses, [*uses[1:], uses[0] + epochs * plan.n], strict=True):
        missing.append(0)
        for number in np.argsort(now).tolist():
            missing[-1] += cached.pop(number, None) is None
            cached[number] = int(later[number])
            if len(cached) > share * n:
                del cached[max(cached, key=cached.__getitem__)]
    return [count / n for count in missing[1:]]


def cache_rows(n: int, folder: Path, server: S3Folder) -> Iterator[list[str]]:
    """Yield a row for each size of a disk cache and side: median requests and bytes of an epoch after the first."""
    with dataformats.open(folder / BUCKET / "tfrecord") as source:
        loader = dataformats.Loader(source, BATCH, shuffle="window", window_blocks=WINDOW_BLOCKS)
        plan = loader._plan
    for share in CACHE_SHARES:
        least = statistics.median(least_blocks(plan, share, CACHE_EPOCHS))
        n_blocks = -(-n // plan.shuffle.block_records)
        yield [f"{share:.0%}", "least possible", f"{least * n_blocks:.0f}", "", f"{least:.0%}"]
        for side in SIDES_WITH_CACHES:
            counts = later_epochs(side, int(share * n * RECORD_BYTES), folder, server)
            if len(counts) < CACHE_EPOCHS - 1:
                yield [f"{share:.0%}", side, "fails", "", ""]
                continue
            requests, n_bytes = (statistics.median(column) for column in zip(*counts, strict=True))
            yield [f"{share:.0%}", side, f"{requests:.0f}", f"{n_bytes / 1e6:.0f}", f"{n_bytes / n / RECORD_BYTES:.0%}"]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.object_store")
    parser.add_argument("-k", metavar="TEXT", default="", help="only rows whose name contains this")
    parser.add_argument("--records", type=int, default=N, help="number of records")
    parser.add_argument("--rounds", type=int, default=3, help="number of times that each side is timed")
    parser.add_argument("--caches", action="store_true", help="the table of disk caches instead")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        print(json.dumps(run(Job(**json.loads(options.job)))))
        return
    folder = Path(tempfile.gettempdir(), "dataformats-benchmarks", f"object-store-{options.records}")
    write(folder, options.records)
    server = S3Folder(folder)
    if options.caches:
        print("| cache of the data | side | requests | MB | of the data |\n|---|---|---|---|---|")
        for row in cache_rows(options.records, folder, server):
            print(f"| {' | '.join(row)} |", flush=True)
        server.close()
        return
    heads = ("work", "side", "its epoch by ours", *FIGURES)
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    for case in CASES:
        for row in rows(case, options.rounds, folder, server) if options.k in case.name else ():
            print(f"| {' | '.join(row)} |", flush=True)
    with tempfile.TemporaryDirectory() as cache:
        server.begin(0.02)
        found = environment(Job(OURS), server.url, folder, Path(cache), 0)
        done = subprocess.run([sys.executable, "-c", COUNT], env=found, stdout=subprocess.PIPE, text=True, check=True)
    requests, n_bytes = server.counts
    print(
        f"\n`open` and `len`, 20 ms, no index on the disk: {float(done.stdout):.2f} s, {requests} requests, {n_bytes} B"
    )
    server.close()


if __name__ == "__main__":
    main()
