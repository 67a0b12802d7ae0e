"""Flat files of tokens (`.bin`): llm.c's, with a header, and nanoGPT's, without one."""

from dataformats.backends.tokens.backend import TokensBackend

BACKEND = TokensBackend()
