"""File formats: one folder each."""
