"""Unfinished OFRecord files, cut at every byte and resumed."""

import os
from pathlib import Path

from dataformats.backends.ofrecord import BACKEND
from dataformats.backends.ofrecord.layout import FRAMING
from tests.backends.test_ofrecord import RECORDS, SMALL
from tests.campaign import chosen

NOWHERE = os.path.join(os.devnull, "x")  # no index is kept: thousands would be


ENDS = [len(FRAMING.frames(RECORDS[: n + 1])) for n in range(len(RECORDS))]


def test_a_file_cut_anywhere_is_resumed_behind_its_last_whole_record(tmp_path: Path) -> None:
    for cut in chosen(range(len(SMALL) + 1)):
        path = tmp_path / f"{cut}"
        path.write_bytes(SMALL[:cut])
        writer = BACKEND.create(path, resume=True)
        assert writer.n_records == sum(end <= cut for end in ENDS)
        assert writer.n_bytes == path.stat().st_size
        for record in RECORDS[writer.n_records :]:
            writer.append(record)
        writer.close()
        assert path.read_bytes() == SMALL
