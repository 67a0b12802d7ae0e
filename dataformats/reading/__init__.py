"""From a path to a source of records."""
