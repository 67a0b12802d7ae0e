"""Wing 2: one small file per kind of value."""
