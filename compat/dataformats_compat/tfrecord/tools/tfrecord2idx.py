"""Makes the text indexes of TFRecord files: the offset and the length of each record's frame.

As a program: `python -m dataformats_compat.tfrecord.tools.tfrecord2idx FILE INDEX`, or with a folder alone.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from dataformats.internals import write_text_index

__all__ = ["create_index", "create_indices", "main"]


def create_index(tfrecord_file: str, index_file: str) -> None:
    """Write the index of a file.

    Raises:
        FormatError: The file is compressed or damaged.

    Example:
        >>> import pathlib, tempfile
        >>> index = pathlib.Path(tempfile.mkdtemp()) / "vahidk.index"
        >>> create_index("tests/golden/tfrecord/vahidk.tfrecord", str(index))
        >>> index.read_bytes() == pathlib.Path("tests/golden/tfrecord/vahidk.index").read_bytes()
        True
    """
    write_text_index(tfrecord_file, index_file)


def create_indices(tfrecord_dir: str) -> None:
    """Write `NAME.tfindex` for each `NAME.tfrecord` of a folder.

    Raises:
        FormatError: A file is compressed or damaged.
    """
    for path in sorted(Path(tfrecord_dir).glob("*.tfrecord")):
        write_text_index(path, path.with_suffix(".tfindex"))


def main() -> None:
    """Run the program."""
    parser = argparse.ArgumentParser(prog="tfrecord2idx", description="Make the indexes of TFRecord files.")
    parser.add_argument("path", help="a TFRecord file, or a folder: every *.tfrecord gets a *.tfindex")
    parser.add_argument("index", nargs="?", help="the index of the file")
    arguments = parser.parse_args()
    if Path(arguments.path).is_dir():
        create_indices(arguments.path)
    elif arguments.index is None:
        parser.error("expected the name of the index, because the path is a file")
    else:
        create_index(arguments.path, arguments.index)


if __name__ == "__main__":
    main()
