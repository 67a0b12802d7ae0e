"""Write records to files that are published atomically."""
