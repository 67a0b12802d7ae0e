"""Codecs: one file for each kind of value."""
