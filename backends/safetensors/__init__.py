"""Safetensors (`.safetensors`): a JSON header with the place of each tensor, then the tensors."""

from dataformats.backends.safetensors.backend import SafetensorsBackend

BACKEND = SafetensorsBackend()
