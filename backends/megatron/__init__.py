"""Megatron (`.bin` and `.idx`): the tokens of all documents, and a table of where each lies."""

from dataformats.backends.megatron.backend import MegatronBackend

__all__ = ["BACKEND", "MegatronBackend"]

BACKEND = MegatronBackend()
