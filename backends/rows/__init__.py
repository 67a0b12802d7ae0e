"""Rows of a fixed size: what token files, NumPy arrays and safetensors share, and the windows of a token stream."""
