# SPDX-License-Identifier: Apache-2.0
#
# The front door. Meson does the building; `make help` lists what can be asked for.

# The system's own tools first: a Python environment may put others into PATH that lack their modules.
PYTHON = $(firstword $(wildcard /usr/bin/python3) python3)
# Looked up when used: tools/deps may only just have installed it.
MESON = $(firstword $(wildcard /usr/bin/meson) meson)

.DEFAULT_GOAL := help
.PHONY: help build demo check check-quick check-asan check-tsan check-clang format clean

help:
	@echo 'make demo         install what is missing, build, train a model on 4 CPU ranks of two pretend vendors'
	@echo 'make check        install what is missing, run every test and gate (ends with "N passed, N failed")'
	@echo 'make build        build into build/'
	@echo 'make check-quick  the gates, and the tests of the gcc build'
	@echo 'make check-asan   the tests under AddressSanitizer and UndefinedBehaviorSanitizer'
	@echo 'make check-tsan   the tests under ThreadSanitizer'
	@echo 'make check-clang  the tests of a clang build'
	@echo 'make format       rewrite all C files with clang-format'
	@echo 'make clean        remove every build folder'

build:
	@tools/deps build
	@test -f build/build.ninja || CC=gcc $(MESON) setup build >/dev/null
	@echo 'building into build/'
	@if [ -t 1 ]; then ninja -C build; else ninja -C build --quiet; fi

demo: build
	@$(PYTHON) tools/demo build

check:
	@tools/deps check
	@$(PYTHON) tests/run-all

check-quick:
	@tools/deps check
	@$(PYTHON) tests/run-all gates gcc

check-asan check-tsan check-clang:
	@tools/deps check
	@$(PYTHON) tests/run-all --full $(@:check-%=%)

format:
	@tools/deps check
	@find src include tools examples tests -name '*.[ch]' -exec clang-format -i {} +

clean:
	rm -rf build build-asan build-tsan build-clang
