"""The part of the build that pyproject.toml cannot say: the C kernels.

They are optional, so that an install without a compiler works (and then says that it runs on the reference
kernels). `DATAFORMATS_REQUIRE_NATIVE=1` makes a failing compile fail the build.
"""

import os
import sysconfig
import tempfile
from glob import glob

from setuptools import Extension, setup

# One wheel for Python 3.11 and later, but for free-threaded Python, which has no limited API.
LIMITED_API = not sysconfig.get_config_var("Py_GIL_DISABLED")

GCC = ["-O3", "-std=c11", "-Wall", "-Wextra", "-fvisibility=hidden", "-Werror=implicit-function-declaration"]
MSVC = ["/std:c11", "/experimental:c11atomics"]

native = Extension(
    "dataformats.kernels._native",
    sources=sorted(glob("dataformats/kernels/*/*.c")),
    depends=sorted(glob("dataformats/kernels/*/*.h")),
    include_dirs=["dataformats/kernels"],
    extra_compile_args=MSVC if os.name == "nt" else GCC,
    define_macros=[("Py_LIMITED_API", "0x030B0000")] if LIMITED_API else [],
    py_limited_api=LIMITED_API,
    optional=os.environ.get("DATAFORMATS_REQUIRE_NATIVE") != "1",
)

# A build starts in an empty folder: modules that were deleted since an earlier build stay out of the package.
with tempfile.TemporaryDirectory(prefix="dataformats-build-") as scratch:
    # "compat" makes `pip install -e` add a plain path. The default import hook comes after the current folder, so that
    # Python started beside the checkout would import the checkout's folder as an empty namespace package.
    options = {"build": {"build_base": scratch}, "editable_wheel": {"mode": "compat"}}
    if LIMITED_API:
        options["bdist_wheel"] = {"py_limited_api": "cp311"}
    setup(ext_modules=[native], options=options)
