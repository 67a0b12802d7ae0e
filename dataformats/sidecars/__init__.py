"""The file beside data that says what a format cannot store, and which files belong together."""
