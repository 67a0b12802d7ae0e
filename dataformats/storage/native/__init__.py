"""Reads by native calls: the fast path, the files as the kernels see them, the engines."""
