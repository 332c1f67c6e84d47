# A short way to the usual commands; the build itself is CMake (presets release, asan, clang).
#   make    make test    make demo    make bench    make wheel    make install PREFIX=/usr/local    make format    make clean
# make format works on the lines changed since the last commit. PRESET=asan or PRESET=clang works on another build; WERROR=ON makes warnings errors; ARGS= goes to ctest or to bench;
# CUDA_ARCHS= is SNLS_CUDA_ARCHS of cmake/cuda.cmake.
PRESET ?= release
PREFIX ?= /usr/local
WERROR ?=
CUDA_ARCHS ?=
JOBS   ?= $(shell getconf _NPROCESSORS_ONLN)
ARGS   ?=
BUILD  := build$(addprefix -,$(filter-out release,$(PRESET)))

all: build

build:
	@tools/install_deps.sh build $(filter clang,$(PRESET))
	@cmake --preset $(PRESET) $(addprefix -DSNLS_WERROR=,$(WERROR)) $(if $(CUDA_ARCHS),-DSNLS_CUDA_ARCHS='$(CUDA_ARCHS)')
	@MAKEFLAGS=--no-print-directory cmake --build $(BUILD) --parallel $(JOBS)

test:
	@tools/install_deps.sh build test $(filter clang,$(PRESET))
	@tools/install_deps.sh torch || true # a large package; without it the tests of PyTorch are skipped
	@$(MAKE) --no-print-directory build
	@ctest --test-dir $(BUILD) --output-on-failure --parallel $(JOBS) $(ARGS)

demo: build
	@tools/demo.sh $(BUILD)

bench: build
	@$(BUILD)/snls bench $(ARGS)

wheel:
	@tools/install_deps.sh build python
	@python3 bindings/python/snls_build.py build/wheel

install: build
	@cmake --install $(BUILD) --prefix $(PREFIX)

format:
	@tools/install_deps.sh format
	@git clang-format --force --extensions c,h || true

clean:
	rm -rf build build-asan build-clang

.PHONY: all build test demo bench wheel install format clean
