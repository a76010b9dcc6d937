# Everything runs in virtual environments of this directory; nothing else on the machine changes.
# Needed: git, make, g++ and Python >= 3.11 with its headers (another one than python3: make PYTHON=python3.12 ...).

PYTHON ?= python3
DEMO := .venv
DEV := .venv-dev
ORACLE := .venv-oracle
ASAN := .venv-asan
ORACLE_DIR ?= build/oracle
SEEDS ?= 1 2 3
WORKERS ?= 2
PROMPT ?= Tell me a story about a fox.
DEMO_FLAGS := -v --chat --ram 400MB --seed 7

export PIP_DISABLE_PIP_VERSION_CHECK := 1
PIP_INSTALL := -m pip install -qq

NATIVE_SOURCES := pyproject.toml CMakeLists.txt $(wildcard csrc/* csrc/*/*)
PACKAGE_SOURCES := $(shell find src -type f ! -name '*.pyc')

.PHONY: help demo test check format bench oracle soak asan arm vectors clean
.DEFAULT_GOAL := help

help:
	@echo 'make demo    install colibri here and stream text from the embedded model'
	@echo 'make test    the test suite (ARGS="tests/cli -x" for a part of it)'
	@echo 'make check   lint, types, dependency directions, the stub of the native module'
	@echo 'make format  rewrite the Python sources in the project'"'"'s format'
	@echo 'make bench   kernel benchmarks'
	@echo 'make oracle  compare with transformers on fresh random checkpoints (installs torch)'
	@echo 'make soak    the long tests'
	@echo 'make asan    the kernels and their tests under the address and undefined-behaviour sanitizers'
	@echo 'make arm     the kernels cross-compiled for aarch64, run under qemu'
	@echo 'make vectors store the bits of the kernels, after a change that was meant to change them'
	@echo 'make clean   remove all that was built or installed here'

demo: $(DEMO)/.installed
	@echo
	@echo '$$ coli run $(DEMO_FLAGS) "$(PROMPT)"'
	@$(DEMO)/bin/coli run $(DEMO_FLAGS) "$(PROMPT)"
	@echo
	@echo 'Now yours: $(DEMO)/bin/coli chat, or $(DEMO)/bin/coli run --model DIR "prompt"'

# Tests that others would disturb come first and alone; the rest follow in two processes, so that the
# last line is theirs. A part of the tests runs in one process.
test: $(DEV)/.installed
ifdef ARGS
	@$(DEV)/bin/python -m pytest $(ARGS)
else
	@$(DEV)/bin/python -m pytest -m 'alone and not soak'; alone=$$?; \
	  $(DEV)/bin/python -m pytest -m 'not alone and not soak' -n $(WORKERS) --dist loadfile; \
	  rest=$$?; test $$alone = 0 -a $$rest = 0
endif

check: $(DEV)/.installed
	@echo 'ruff' && $(DEV)/bin/ruff check -q . && $(DEV)/bin/ruff format -q --check .
	@echo 'mypy' && $(DEV)/bin/mypy --no-error-summary
	@echo 'import-linter' && $(DEV)/bin/lint-imports > $(DEV)/imports.log || (cat $(DEV)/imports.log; exit 1)
	@echo 'native stub' && $(DEV)/bin/python -m scripts.stub
	@echo 'vendored files' && $(DEV)/bin/python -m scripts.vendor --check
	@echo 'generated docs' && $(DEV)/bin/python -m scripts.docs --check

format: $(DEV)/.installed
	@$(DEV)/bin/ruff check -q --fix . ; $(DEV)/bin/ruff format -q .

bench: $(DEV)/.installed
	@$(DEV)/bin/python -m pytest benchmarks --benchmark-only --benchmark-sort=name \
	  --benchmark-columns=median,iqr,rounds $(ARGS)

soak: $(DEV)/.installed
	@$(DEV)/bin/python -m pytest -m soak --timeout 3600 $(ARGS)

SANITIZE := -O1 -g1 -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
# kernel_vectors into build/$(1), with the cmake flags $(2)
define build_vectors
@mkdir -p build
@(PATH="$(CURDIR)/$(DEV)/bin:$$PATH" cmake -S . -B build/$(1) -G Ninja -DCOLIBRI_MODULE=OFF -DCOLIBRI_VECTORS=ON $(2) && \
  $(DEV)/bin/cmake --build build/$(1)) > build/$(1).log 2>&1 || (cat build/$(1).log; exit 1)
endef

asan: $(DEV)/.installed $(ASAN)/.installed
	$(call build_vectors,vectors-asan,-DCMAKE_CXX_COMPILER=g++ -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG='$(SANITIZE)')
	@build/vectors-asan/kernel_vectors > build/vectors-asan.txt
	@grep '^scalar' build/vectors-asan.txt | cut -d' ' -f2- | diff - tests/native/vectors.txt
	@echo 'kernel vectors: no finding'
	@LD_PRELOAD="$$(g++ -print-file-name=libasan.so) $$(g++ -print-file-name=libubsan.so)" \
	  ASAN_OPTIONS=detect_leaks=0 $(ASAN)/bin/python -m pytest tests/kernels $(ARGS)

arm: $(DEV)/.installed
	@$(DEV)/bin/python -m pytest tests/native -k aarch64 -rs $(ARGS)

vectors: $(DEV)/.installed
	$(call build_vectors,vectors)
	@build/vectors/kernel_vectors | grep '^scalar' | cut -d' ' -f2- > tests/native/vectors.txt

oracle: $(DEV)/.installed $(ORACLE)/.installed
	@$(ORACLE)/bin/python -m scripts.oracle.make $(ORACLE_DIR) --seeds $(SEEDS)
	@$(DEV)/bin/python -m scripts.oracle.compare $(ORACLE_DIR)

clean:
	rm -rf $(DEMO) $(DEV) $(ORACLE) $(ASAN) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis \
	  .benchmarks .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A failed installation leaves no stamp, so the next make tries again.

$(DEMO)/.installed: $(NATIVE_SOURCES) $(PACKAGE_SOURCES)
	$(call new_venv,$(DEMO))
	@echo 'installing colibri into $(DEMO) (compiles the native module: one to three minutes)'
	@$(DEMO)/bin/python $(PIP_INSTALL) .
	@touch $@

# An editable installation knows the modules there were: it is renewed when their list changes.
$(DEV)/.modules: FORCE
	$(call new_venv,$(DEV))
	@find src -name '*.py' | LC_ALL=C sort > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

FORCE:

$(DEV)/.installed: $(NATIVE_SOURCES) $(DEV)/.modules
	@echo 'installing colibri for development into $(DEV)'
	@$(DEV)/bin/python $(PIP_INSTALL) --upgrade 'pip>=25.1'
	@$(DEV)/bin/python $(PIP_INSTALL) --group build --group dev
	@$(DEV)/bin/python $(PIP_INSTALL) --no-build-isolation -e .
	@touch $@

$(ASAN)/.installed: $(NATIVE_SOURCES) $(PACKAGE_SOURCES)
	$(call new_venv,$(ASAN))
	@echo 'installing colibri with sanitizers into $(ASAN)'
	@$(ASAN)/bin/python $(PIP_INSTALL) --upgrade 'pip>=25.1'
	@$(ASAN)/bin/python $(PIP_INSTALL) --group build --group dev
	@CXX=g++ CXXFLAGS='$(SANITIZE)' $(ASAN)/bin/python $(PIP_INSTALL) --no-build-isolation \
	  -Cbuild-dir=build/asan -Ccmake.build-type=Debug -Cinstall.strip=false .
	@touch $@

$(ORACLE)/.installed: pyproject.toml
	$(call new_venv,$(ORACLE))
	@echo 'installing torch, transformers, safetensors and numpy into $(ORACLE) (large)'
	@$(ORACLE)/bin/python $(PIP_INSTALL) --upgrade 'pip>=25.1'
	@$(ORACLE)/bin/python $(PIP_INSTALL) --group oracle
	@touch $@

define new_venv
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
  (echo 'Python >= 3.11 is needed: make PYTHON=/path/to/python3.11 ...' >&2; exit 1)
@$(PYTHON) -c 'import ensurepip' 2> /dev/null || \
  (echo 'Python cannot make virtual environments here: on Debian and Ubuntu, apt install python3-venv' >&2; exit 1)
@test -f "$$($(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" || \
  (echo 'The headers of Python are needed: on Debian and Ubuntu, apt install python3-dev' >&2; exit 1)
@command -v $${CXX:-c++} g++ clang++ > /dev/null || \
  (echo 'A C++ compiler is needed: on Debian and Ubuntu, apt install g++' >&2; exit 1)
@test -x $(1)/bin/python || $(PYTHON) -m venv $(1)
endef
