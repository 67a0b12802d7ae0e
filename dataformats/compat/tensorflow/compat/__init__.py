"""`tf.compat`: `v1` has the names of TensorFlow 1."""

from __future__ import annotations

from dataformats.compat.tensorflow.compat import v1

__all__ = ["v1"]
