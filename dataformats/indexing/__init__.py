"""From a record number to a file, an offset and a length."""
