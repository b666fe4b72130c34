# Two commands do everything on a fresh Debian 12 machine: `make run` and `make test`. See CONTRIBUTING.md for the rest.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help tidy-all setup build program run test sanitize sanitize-long asan asan-torch tsan tsan-python fuzz check defects defects-long lint api format bench bench-python torch-versions package package-test python python-long python-versions wheel wheels clean

# A file that includes Torch takes 1.3 GB to compile: no more jobs than cores, and than fit into memory.
JOBS ?= $(shell awk -v cores=$$(nproc) '/MemAvailable/ { n = int($$2 / 1500000); print n < 1 ? 1 : n < cores ? n : cores }' /proc/meminfo)
CTEST := ctest -j$(JOBS) --output-on-failure --no-tests=error
# Without the lines that announce a test, and with short ones.
SHORTER := sed -uE '/^ *Start +[0-9]+: /d; s/ \.{3,}/ .../'
STRETTO := build/release/bin/stretto

help:  ## Lists the targets.
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'

setup:  ## Installs what is missing of packages.txt.
	@tools/setup

build: build/release/build.ninja  ## Builds the library, the program and the tests; installs nothing.
	@cmake --build --preset release -j$(JOBS)

run: setup  ## Installs what is missing, builds the program, compares waiting with not waiting on real data, and makes a page of it.
	@$(MAKE) --no-print-directory program
	$(STRETTO) compare vowels --algorithms sync,eager-quorum,eager-solo --ranks 4 --pace 200us --out runs/first
	@$(STRETTO) report runs/first

program: build/release/build.ninja  ## Builds the program alone; installs nothing.
	@cmake --build --preset release -j$(JOBS) --target stretto stretto-train

test: setup  ## Installs what is missing, builds, and runs all tests.
	@$(MAKE) --no-print-directory build
	@$(CTEST) --test-dir build/release | $(SHORTER)

sanitize: asan asan-torch tsan tsan-python  ## Runs the tests under the address, undefined and thread sanitizers.

# A program is one test, or a few: all of its output is kept, where tools/check_skipped looks.
asan tsan: %: build/%/build.ninja
	@cmake --build --preset $@ -j$(JOBS)
	@$(CTEST) --test-output-size-passed 10000000 --test-dir build/$@ | $(SHORTER)

asan-torch: build/asan-torch/build.ninja  ## Runs the tests of DistributedOptimizer under the address and undefined sanitizers.
	@cmake --build --preset $@ -j$(JOBS)
	@$(CTEST) --test-dir build/$@ -L torch | $(SHORTER)

# Python and PyTorch are not sanitized: the module is, with the library in it. A rank ends with 66 where it has found something.
TSAN_PYTHON_TESTS := collectives several_optimizers optimizer_ranks ranks scaler

tsan-python: setup  ## Runs tests of the Python package with its binding under the thread sanitizer.
	@cmake --preset python-tsan
	@cmake --build --preset python-tsan -j$(JOBS)
	@cp -rsf $(CURDIR)/python/stretto build/python-tsan/package/
	@env -u PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX=$(CURDIR)/build/release/pycache PYTHONPATH=$(CURDIR)/build/python-tsan/package \
	  LD_PRELOAD=$$(c++ -print-file-name=libtsan.so) \
	  TSAN_OPTIONS=suppressions=$(CURDIR)/python/binding/tsan_suppressions:die_after_fork=0:exitcode=66 \
	  setarch -R .cache/python-test/bin/python -m pytest -p no:cacheprovider $(TSAN_PYTHON_TESTS:%=tests/python/test_%.py)

sanitize-long:  ## The same, with the tests that `make sanitize` leaves out since they take long there.
	@for preset in asan asan-torch tsan; do cmake --preset $$preset -DSTRETTO_SANITIZE_LONG=ON; done
	@$(MAKE) --no-print-directory sanitize; status=$$?; \
	  for preset in asan asan-torch tsan; do cmake --preset $$preset -DSTRETTO_SANITIZE_LONG=OFF; done; exit $$status

fuzz: build/asan/build.ninja  ## Reads mutated data of peers and files for a minute, under sanitizers.
	@cmake --build --preset asan -j$(JOBS) --target fuzz
	@! build/asan/bin/fuzz 5 1 planted 2>/dev/null && echo "a planted overflow is found"
	@build/asan/bin/fuzz 55

check: build  ## Searches for violations of the protocol: fixed seeds, then new ones.
	$(STRETTO) check --rounds 100000
	$(STRETTO) check --rounds 20000 --seeds new

defects: build/defects/build.ninja  ## Plants known bugs, one at a time; the search must find each within 15 s.
	@cmake --build --preset defects -j$(JOBS) --target stretto
	@tools/check_defects build/defects/bin/stretto

defects-long: build/defects/build.ninja  ## The same, with a minute for each.
	@cmake --build --preset defects -j$(JOBS) --target stretto
	@tools/check_defects build/defects/bin/stretto 60

lint: build/release/build.ninja  ## Checks format, rooms, citations, the reference, headers, clang-tidy, thread-safety annotations, Python.
	@ninja --quiet -C build/release build.ninja
	@tools/lint -j$(JOBS)

tidy-all: build/release/build.ninja  ## Runs clang-tidy over tests and what includes Torch, too: half an hour.
	@tools/check_sources --all -j$(JOBS)

api:  ## Makes the reference of the public headers (build/api/index.html); fails where a comment is missing.
	@rm -rf build/api
	@tools/check_api --html build/api

format:  ## Formats all C++ sources.
	@tools/lint --format

# What takes longer, or needs a quiet machine, is repeated one by one: `stretto reproduce --help`, docs/results.md.
bench: build  ## Runs the small benchmarks, and the microbenchmark of the eager-SGD paper.
	@for program in build/release/bin/bench_*; do $$program; done
	$(STRETTO) reproduce fig9

bench-python: python  ## Measures what a step of the Python package costs, beside the plain optimizer and DDP.
	@PYTHONPATH=build/python/package .venv/bin/python microbench/python_step.py

# The library compiles with each; nothing is run. Not part of .ci/run: a wheel takes half a gigabyte.
torch-versions: torch-2.11.0 torch-2.12.0  ## Checks that the sources compile with the older supported PyTorch.

torch-%: setup
	@[ -d .cache/torch-$*/torch ] || .venv/bin/python -m pip install --no-deps --target .cache/torch-$* torch==$*
	@cmake --preset release -B build/torch-$* -DSTRETTO_TORCH_DIR=$(CURDIR)/.cache/torch-$*/torch -DBUILD_TESTING=OFF
	@cmake --build build/torch-$* -j$(JOBS) --target stretto_torch stretto_workloads

package: setup  ## Makes build/package/stretto*.tar.zst and .deb: program, library, headers, and LibTorch's libraries.
	@$(MAKE) --no-print-directory build/package/build.ninja
	@cmake --build --preset package -j$(JOBS)
	@ls -sh build/package/stretto*.tar.zst build/package/stretto*.deb

# Not part of .ci/run: it loads a Debian of its own. Needs root, and mmdebstrap.
package-test: package  ## Installs the .deb in a fresh Debian 12 without compiler, checks and trains there.
	@tests/install/package_test build/package/stretto_*.deb build/package/stretto-*.tar.zst

python: setup  ## Makes build/python/package, from where Python imports the package (PYTHONPATH); a change takes seconds.
	@tools/build_wheel --develop

# Not part of .ci/run: minutes. Those that compile by inductor, make more steps, or are ended at more moments.
PYTHON_LONG_TESTS := bench ends launchers leaks sync sync_models

python-long: python  ## Runs the tests of the Python package that have a long variant, in that one.
	@env -u PYTHONDONTWRITEBYTECODE PYTHONPYCACHEPREFIX=$(CURDIR)/build/release/pycache PYTHONPATH=$(CURDIR)/build/python/package \
	  STRETTO_LONG_TESTS=1 .cache/python-test/bin/pytest -p no:cacheprovider $(PYTHON_LONG_TESTS:%=tests/python/test_%.py)

wheel: setup  ## Makes the Python package's wheel for this machine's Python (build/wheel).
	@tools/build_wheel

# Not part of .ci/run: six wheels, compiled by zig. Pythons 3.10 and 3.12 are looked for as by the test python.versions.
wheels: python  ## Makes a release's wheels (build/wheels): each Python, x86-64 and aarch64, glibc from 2.28 on.
	@.venv/bin/python -B tests/python/release.py

# Not part of .ci/run: a PyTorch takes gigabytes, and is kept in .cache.
python-versions: python-torch-2.4.1 python-torch-2.15.0  ## Runs the tests of the wheel with the oldest PyTorch and with a newer one.

PYTHON_VERSIONS_TESTS := optimizer refusals optimizer_ranks ranks ddp sync schedulers scaler \
  optim_db half overlap device two_at_once sync_models report spawn

python-torch-%: setup
	@[ -x .cache/$@/bin/pytest ] || .venv/bin/python -m venv --clear .cache/$@
	@.cache/$@/bin/python -m pip install --quiet --no-compile torch==$* numpy $$(sed -n 's/^\(pytest\|expecttest\)==\([^ ]*\).*/\1==\2/p' packages.txt)
	@.cache/$@/bin/python -m pip install --quiet --no-deps --force-reinstall "$$(tools/build_wheel)"
	@PYTHONPYCACHEPREFIX=$(CURDIR)/build/pycache-$@ .cache/$@/bin/pytest -p no:cacheprovider $(PYTHON_VERSIONS_TESTS:%=tests/python/test_%.py)

# CMake looks at the machine again when something was installed.
build/%/build.ninja: CMakePresets.json $(wildcard .cache/packages-changed)
	@cmake --fresh --preset $*
	@touch $@

clean:  ## Removes what was built; .venv and the caches stay.
	rm -rf build
