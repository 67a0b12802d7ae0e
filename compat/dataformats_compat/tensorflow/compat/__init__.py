"""`tf.compat`: `v1` has the names of TensorFlow 1, `v2` the names of TensorFlow 2."""

from __future__ import annotations

from dataformats_compat.tensorflow.compat import v1, v2

__all__ = ["v1", "v2"]
