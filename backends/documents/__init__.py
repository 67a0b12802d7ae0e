"""JSON documents (`json`): the elements of a list, or objects one behind another; plain, or compressed as a whole."""

from dataformats.backends.documents.backend import JsonBackend

BACKEND = JsonBackend()
