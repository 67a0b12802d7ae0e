"""Files of lines: JSON documents (`jsonl`), or text; plain, or compressed as a whole."""

from dataformats.backends.lines.backend import JsonLinesBackend, TextLinesBackend

JSONL = JsonLinesBackend()
TEXT = TextLinesBackend()
