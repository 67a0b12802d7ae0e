"""Wing 1: one room per file format."""
