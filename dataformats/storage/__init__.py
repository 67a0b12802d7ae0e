"""Bytes in and out: files and URLs, I/O, extents, atomic writing, index sidecars. Knows no format."""
