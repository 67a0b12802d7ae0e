"""Worker processes that build batches; README.md explains the design."""
