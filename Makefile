# `make demo` and `make test` install everything they need.
#   LKH=0        without LKH-3 (elkai), which is free for academic and non-commercial use only
#   CPU=1        CPU-only PyTorch, without CUDA; PIP_EXTRA_INDEX_URL=... is the index of its builds
#   PYTHON=...   Python for a new .venv (3.11 to 3.13; `make clean` removes an old one); VENV=... another folder

PYTHON ?= python3
LKH ?= 1
CPU ?= 0
STORE ?= store
PRESET ?= laptop
VENV := .venv
BIN := $(VENV)/bin
comma := ,
EXTRAS := pipeline,dev,docs$(if $(filter 1,$(LKH)),$(comma)lkh)
# As in the image: the CPU wheel of the same version.
TORCH := $(if $(filter 1,$(CPU)),$(shell sed -n 's/^torch==.*/&+cpu/p' constraints.txt))
STAMP := $(VENV)/.installed-$(subst $(comma),-,$(EXTRAS))$(if $(TORCH),-cpu)

# Some CI machines set it; hundreds of processes would then compile their imports again and again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-unit test-full test-slow check docs format bench-peers images up down ps logs test-stack test-engine clean help same

help:
	@echo "make demo        city -> labels -> training -> benchmark on this machine (PRESET=$(PRESET), STORE=$(STORE))"
	@echo "make test        all tests but the slow ones      make test-slow   the slow ones      make test-full   both"
	@echo "make check       lint, types, layers              make format      format the code"
	@echo "make docs        the documentation site"
	@echo "make same        results to compare between versions          make clean       remove the installation"
	@echo "make up          start the full stack in containers          make down        stop it; data is kept"
	@echo "make ps, logs    status, logs                                 make test-stack  test it"
	@echo "make bench-peers against other solvers; record results in BENCHMARKS.md"

demo: $(STAMP)
	$(BIN)/mcvrp run --preset $(PRESET) --store "$(STORE)"

# Each process with whole files. On two cores four, as much of the tests' time is waiting; three for the
# slow ones, which start many processes themselves.
PYTEST := $(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder -n

test: $(STAMP)
	$(PYTEST) 4 -m "not slow"

# Tests without server, Ray or browser, e.g. on another Python.
test-unit: $(STAMP)
	$(PYTEST) 3 -m "not slow" tests/unit

test-full: $(STAMP)
	$(PYTEST) 4

# The tests that `make test` leaves out.
test-slow: $(STAMP)
	$(PYTEST) 4 -m slow

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

# The documentation site, in build/site.
docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Create the folder with each of two versions, then compare them (tests/benchmarks/same.py).
SAME ?= same
same: $(STAMP)
	$(BIN)/python tests/benchmarks/same.py make $(SAME)

# Against other solvers, on CVRPLIB instances with their .sol in the folder X; hours, resumed from peers.jsonl.
bench-peers: $(STAMP) .venv-peers
	$(BIN)/python -m tests.benchmarks.bench_peers X peers.jsonl

.venv-peers: tests/benchmarks/peers.txt
	$(PYTHON) -m venv $@
	$@/bin/python -m pip install --quiet --disable-pip-version-check -r $< || { rm -rf $@; exit 2; }
	@touch $@

SIZE := about 2.8 GB$(if $(TORCH),, and where PyTorch comes with CUDA 3.5 GB more (CPU=1 leaves that out))
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' || \
	  { echo "mcvrp needs Python 3.11 to 3.13, $(PYTHON) is $$($(PYTHON) --version); set PYTHON=..." >&2; exit 2; }
	@echo "Installing PyTorch, Ray, Prefect, DeepSpeed and the solvers into $(VENV): $(SIZE), usually 2 to 4 minutes."
ifeq ($(LKH),1)
	@echo "This includes LKH-3 (elkai), free for academic and non-commercial use only; 'make $(MAKECMDGOALS) LKH=0' leaves it out."
endif
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv $(VENV)
ifeq ($(TORCH),)
# 2.13.0+cpu satisfies 2.13.0. Only after CPU=1: there are machines whose index has no other build.
	@test -z "$(wildcard $(VENV)/.installed-*-cpu)" || \
	  { $(BIN)/python -m pip uninstall --quiet --yes torch && rm -f $(VENV)/.installed-*; }
endif
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -c constraints.txt $(TORCH) -e '.[$(EXTRAS)]' 2> $(VENV)/install.log || \
	  { cat $(VENV)/install.log >&2; echo "The installation failed; 'make $(MAKECMDGOALS)' tries again." >&2; exit 2; }
# pip would compile on one core. Some packages contain templates that are not valid Python.
	@$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true
	@rm -f $(VENV)/.installed-*
ifneq ($(LKH),1)
	@$(BIN)/python -m pip uninstall --quiet --yes elkai 2>/dev/null || true
endif
	@touch $@

# The full stack in containers, bound to this machine; data is kept in volumes.
DOCKER ?= docker
COMPOSE := $(DOCKER) compose --env-file docker/.env -f docker/compose.yaml
UP_SECONDS ?= 600
SECRETS := PREFECT_PASSWORD RAY_AUTH_TOKEN

images: docker/.env
	$(COMPOSE) build

up: images
	$(COMPOSE) up --detach --wait --wait-timeout $(UP_SECONDS)

down: docker/.env
	$(COMPOSE) down

ps: docker/.env
	$(COMPOSE) ps --all

logs: docker/.env
	$(COMPOSE) logs

# Tests of the stack on this machine's engine, in a project and on an address of its own.
test-stack: test-engine $(STAMP)
	MCVRP_TEST_STACK=1 $(BIN)/python -m pytest -rs tests/integration/docker/test_engine.py

# Before gigabytes of packages are installed.
test-engine:
	@$(DOCKER) compose version > /dev/null
	@$(DOCKER) info > /dev/null

docker/.env:
	@(umask 077; for name in $(SECRETS); do \
	  echo "$$name=$$(od -An -N24 -tx1 /dev/urandom | tr -d ' \n')"; done > $@.new && mv $@.new $@)
	@echo "Made docker/.env with new secrets, for your eyes only."

clean:
	rm -rf $(VENV) .venv-peers build src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
