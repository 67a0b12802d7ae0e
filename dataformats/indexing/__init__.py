"""From an index to a file, an offset and a length."""
