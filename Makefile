# Two commands do everything on a fresh Debian 12 machine: `make run` and `make test`. See CONTRIBUTING.md for the rest.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup build run test nightly asan tsan fuzz check defects lint tidy-all api format bench bench-python torch-versions package package-test python python-versions wheel wheels

# A file that includes Torch takes 1.3 GB to compile: no more jobs than cores, and than fit into memory.
JOBS ?= $(shell awk -v cores=$$(nproc) '/MemAvailable/ { n = int($$2 / 1500000); print n < 1 ? 1 : n < cores ? n : cores }' /proc/meminfo)
STRETTO := build/release/bin/stretto

help:  ## Lists the targets.
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-20s %s\n", $$1, $$2 }'

setup:  ## Installs what is missing of packages.txt.
	@tools/setup

build: build/release/build.ninja  ## Builds the library, the program and the tests; installs nothing.
	@cmake --build --preset release -j$(JOBS)

run:  ## Installs what the program needs, builds it, compares waiting with not waiting on real data, and makes a page of it.
	@tools/build_program -j$(JOBS)
	$(STRETTO) compare vowels --algorithms sync,eager-quorum,eager-solo --ranks 4 --pace 200us --out runs/first
	@$(STRETTO) report runs/first

# Of one room: make test ROOM=collective. Twice the cores, as its ranks often wait for each other.
ROOM ?=
room_tests = $(if $(ROOM),-j$$((2 * $(JOBS))) -R '^$(ROOM)_test',-j$(JOBS))
test: setup  ## Installs what is missing, builds, and runs all tests that a change runs; ROOM=board: those of one room.
	@$(MAKE) --no-print-directory build/release/build.ninja
	@cmake --build --preset release -j$(JOBS) $(ROOM:%=--target %_test)
	@tools/run_tests release $(room_tests)

asan tsan: setup  ## The same under the address and undefined sanitizers, under the thread sanitizer.
	@$(MAKE) --no-print-directory build/$@/build.ninja
	@cmake --build --preset $@ -j$(JOBS) $(ROOM:%=--target %_test)
	@tools/run_tests $@ $(room_tests)

# Everything, what a change leaves out included (tools/nightly_tests), in parts of at most an hour: make nightly PART=thread.
PART ?= tests address thread search package
nightly: setup  ## Runs everything there is, or a PART of it: tests, address, thread, search, package.
	@tools/nightly $(PART)

fuzz: build/asan/build.ninja  ## Reads mutated data of peers and files for a minute, under sanitizers.
	@cmake --build --preset asan -j$(JOBS) --target fuzz
	@! build/asan/bin/fuzz 5 1 planted 2>/dev/null && echo "a planted overflow is found"
	@build/asan/bin/fuzz 55

check: build/release/build.ninja  ## Searches for violations of the protocol: fixed seeds, then new ones.
	@cmake --build --preset release -j$(JOBS) --target stretto
	$(STRETTO) check --rounds 100000
	$(STRETTO) check --rounds 20000 --seeds new

defects: build/release/build.ninja  ## Plants known bugs, one at a time; the search must find each within 15 s.
	@cmake --build --preset release -j$(JOBS) --target stretto-with-defects
	@tools/check_defects $(STRETTO)-with-defects

lint: build/release/build.ninja  ## Checks format, rooms, citations, the reference, headers, clang-tidy, thread-safety annotations, Python.
	@tools/lint -j$(JOBS)

tidy-all: build/release/build.ninja  ## The same of everything, whatever has changed, and of tests and what includes Torch: half an hour.
	@tools/lint --all -j$(JOBS)

api:  ## Makes the reference of the public headers (build/api/index.html); fails where a comment is missing.
	@rm -rf build/api
	@tools/check_api --html build/api

format:  ## Formats all C++ sources.
	@tools/lint --format

# What takes longer, or needs a quiet machine, is repeated one by one: `stretto reproduce --help`, docs/lab.
bench: build  ## Runs the small benchmarks, and the microbenchmark of the eager-SGD paper.
	@for program in build/release/bin/bench_*; do $$program; done
	$(STRETTO) reproduce fig9

bench-python: python  ## Measures what a step of the Python package costs, beside the plain optimizer and DDP.
	@PYTHONPATH=build/release/package .venv/bin/python microbench/python_step.py

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

# Not part of .ci/run: it loads a Debian of its own. Needs root.
package-test: package  ## Installs the .deb in a fresh Debian 12 without compiler, checks and trains there.
	@tools/setup debian-package
	@tests/install/package_test build/package/stretto_*.deb build/package/stretto-*.tar.zst

python: setup  ## Makes build/release/package, from where Python imports the package (PYTHONPATH); a change takes seconds.
	@$(MAKE) --no-print-directory build/release/build.ninja
	@cmake --build --preset release -j$(JOBS) --target python_package

wheel: setup  ## Makes the Python package's wheel for this machine's Python (build/wheel).
	@tools/build_wheel

# Not part of .ci/run: six wheels, compiled by zig. Pythons 3.10 and 3.12 are looked for as by the test python.versions.
wheels: python  ## Makes a release's wheels (build/wheels): each Python, x86-64 and aarch64, glibc from 2.28 on.
	@.venv/bin/python -B tests/python/package/release.py

# Not part of .ci/run: a PyTorch takes gigabytes, and is kept in .cache.
python-versions: python-torch-2.4.1 python-torch-2.15.0  ## Runs the tests of the wheel with the oldest PyTorch and with a newer one.

PYTHON_VERSIONS_TESTS := optimizer refusals optimizer_ranks ranks ddp sync schedulers scaler \
  optim_db half overlap device two_at_once sync_models report spawn

python-torch-%: setup
	@[ -x .cache/$@/bin/pytest ] || .venv/bin/python -m venv --clear .cache/$@
	@.cache/$@/bin/python -m pip install --quiet --no-compile torch==$* numpy $$(sed -n 's/^\(pytest\|expecttest\)==\([^ ]*\).*/\1==\2/p' packages.txt)
	@.cache/$@/bin/python -m pip install --quiet --no-deps --force-reinstall "$$(tools/build_wheel)"
	@PYTHONPYCACHEPREFIX=$(CURDIR)/build/pycache-$@ .cache/$@/bin/pytest -p no:cacheprovider $(foreach test,$(PYTHON_VERSIONS_TESTS),$(wildcard tests/python/test_$(test).py tests/python/*/test_$(test).py))

# CMake looks at the machine again when something was installed.
build/%/build.ninja: CMakePresets.json $(wildcard .cache/packages-changed)
	@cmake --fresh --preset $*
	@touch $@
