"""Run by the kernel of each notebook before its first cell: makes its new folder look like the top of a checkout."""

import os as _os
from pathlib import Path as _Path

for _name in ("docs", "examples", "tests"):
    _Path(_name).symlink_to(_Path(__file__).parents[1] / _name)
_os.environ["DATAFORMATS_CACHE"] = str(_Path("cache").absolute())
