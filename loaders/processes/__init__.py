"""Batches made ahead in worker processes."""
