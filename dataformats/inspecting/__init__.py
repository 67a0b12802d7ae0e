"""Describe a dataset, and verify it."""
