"""Stored bytes to columns and back."""
