"""`data`: datasets for torch."""
