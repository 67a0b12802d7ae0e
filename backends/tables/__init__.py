"""Formats whose files pyarrow decodes: Parquet, Arrow IPC, CSV."""
