"""Codecs: the bytes of values, one file for each kind of value."""
