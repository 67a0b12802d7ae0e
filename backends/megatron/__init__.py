"""Megatron (`.bin` and `.idx`): the tokens of all documents, and a table of where each lies."""

from dataformats.backends.megatron.backend import MegatronBackend

BACKEND = MegatronBackend()
