"""`syrah` 0.2.0 (`pysyrah`): `File`, and `syrah.utils.data` for torch.

    import dataformats_compat.syrah as syrah  # instead of: import syrah

Example:
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from dataformats_compat.syrah import File
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "test.syr"
    >>> with File(path, mode="w") as syr:
    ...     for i in range(3):
    ...         syr.add_item({"label": np.array([i]), "features": np.ones(4, np.float32)})
    >>> with File(path, mode="r") as syr:
    ...     syr.num_items(), syr.get_item(2)
    (3, {'label': array([2]), 'features': array([1., 1., 1., 1.], dtype=float32)})
"""

from __future__ import annotations

from dataformats_compat.syrah import config, version
from dataformats_compat.syrah._hl.files import File

__all__ = ["File", "config", "version"]

__version__ = version.version
