"""From records to files that appear whole."""
