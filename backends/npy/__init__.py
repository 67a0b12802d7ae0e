"""NumPy arrays (`.npy`): a header with dtype and shape, then the rows."""

from dataformats.backends.npy.backend import NpyBackend

BACKEND = NpyBackend()
