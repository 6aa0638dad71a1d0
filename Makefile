# The two commands of the README: `make quickstart` and `make test`.
VENV := .venv
RUN := $(VENV)/bin
PACKAGES := harness/determined cli/det_cli controlplane/det_controlplane \
	provisioners/aws/det_provisioner_aws provisioners/gcp/det_provisioner_gcp agent_ami/det_agent
SHELL_SCRIPTS := $(wildcard cli/det_cli/fleet/*.sh) agent_ami/det_agent/machine-setup.sh agent_ami/packer/provision.sh scripts/quickstart scripts/release/try-wheel scripts/peer-venv scripts/stock-client scripts/venv scripts/uv-venv scripts/ml-venv \
	scripts/fresh-machine scripts/webui/check scripts/webui/browser ci/train .ci/run $(wildcard tests/fresh/engines/*)
# A worker runs whole files, because the tests of a file share servers. Workers often wait for clusters, so start three more
# than there are processors.
WORKERS ?= $(shell expr $$(getconf _NPROCESSORS_ONLN) + 3)

.PHONY: help quickstart test test-all fresh check policy format bench outages sim sim-mutations lock images dist clean

help:
	@echo "make quickstart   train an example on a cluster on this machine (KEEP=1 keeps the cluster)"
	@echo "make test         run the tests and list those that did not run (TESTS=tests/api for a part)"
	@echo "make test-all     run the heavy ones too"
	@echo "make fresh        test first starts on machines without any software (Linux, root)"
	@echo "make check        format, lint, types, architecture, docs, shell scripts"
	@echo "make policy       check the Terraform stacks with checkov, which it downloads"
	@echo "make bench        measure and compare with the floors; prints one JSON line per figure"
	@echo "make outages      simulate long outages on real clusters: TIMES=10 LENGTH=300 KINDS=\"hole api\""
	@echo "make sim          simulate clusters with faults: SEEDS=200 FIRST_SEED=1"
	@echo "make sim-mutations  check that simulations detect bugs"
	@echo "make images       build images of tasks, for CPU and CUDA: TASK_IMAGE=determined-tasks"
	@echo "make dist         build the files of a release into dist/: WITHOUT=\"image lambda\""
	@echo "make clean        remove .venv, caches and builds (.venvs, the environments of tests, stays)"

quickstart: $(VENV)/.installed
	@scripts/quickstart

# The whole suite creates all environments while it runs; `make test TESTS=tests/api` creates those that its tests use.
TESTS ?=
# Thousands of processes load the same modules: keep the compiled files, even if the environment turns that off.
PYTEST = PYTHONDONTWRITEBYTECODE= $(RUN)/python -m pytest -n $(WORKERS) --dist loadfile $(or $(TESTS),--environments)

test: $(VENV)/.installed-dev
	$(PYTEST)

test-all: $(VENV)/.installed-dev
	DET_TEST_FRAMEWORKS=1 HOSTILE_REQUESTS=100000 DECLARED_SECONDS=240 $(PYTEST)

fresh: $(VENV)/.installed-dev
	$(RUN)/python -m pytest -n $(WORKERS) tests/fresh

check: $(VENV)/.installed-dev
	$(RUN)/ruff format --check .
	$(RUN)/ruff check .
	$(RUN)/mypy $(PACKAGES) scripts/new_migration.py scripts/fresh_machine bench tests
	$(RUN)/python scripts/prose.py
	$(RUN)/python -m pytest tests/test_architecture.py tests/test_docstrings.py tests/docs
	$(RUN)/shellcheck $(SHELL_SCRIPTS)
	scripts/webui/check

# Checkov is large: uv fetches it for this run alone (docs/adr/0030-policy-checks-on-demand.md).
policy: $(VENV)/.installed-dev
	$(RUN)/uv tool run checkov --directory infra/terraform --config-file infra/terraform/.checkov.yaml

format: $(VENV)/.installed-dev
	$(RUN)/ruff format .
	$(RUN)/ruff check --fix .

bench: $(VENV)/.installed-dev
	@$(RUN)/python bench/run.py

# Each kind of outage trains 4 trials and prints the number of their stored metrics and of repeated steps.
TIMES ?= 1
LENGTH ?= 75
KINDS ?=
outages: $(VENV)/.installed-dev
	@$(RUN)/python -m tests.support.outages --times $(TIMES) --length $(LENGTH) $(KINDS)

# `make sim SEEDS=1 FIRST_SEED=123` repeats one simulation.
SEEDS ?= 200
FIRST_SEED ?= 1
sim: $(VENV)/.installed-dev
	SIM_SEEDS=$(SEEDS) SIM_FIRST_SEED=$(FIRST_SEED) $(RUN)/python -m pytest \
		-n $(if $(filter 1,$(SEEDS)),0,$(WORKERS)) --dist load \
		tests/sim/test_world.py tests/sim/test_machine_world.py tests/sim/test_crowded_world.py tests/sim/test_task_world.py \
		tests/sim/test_gang_world.py tests/sim/test_elastic_world.py tests/sim/test_ending_world.py

sim-mutations: $(VENV)/.installed-dev
	SIM_MUTATIONS=all $(RUN)/python -m pytest -rP \
		-n $(WORKERS) --dist load tests/sim/test_mutations.py

# Write the versions that all installations get, for every platform and version of Python.
lock: $(VENV)/.installed-dev
	$(RUN)/uv pip compile pyproject.toml --extra dev --extra aws --universal \
		--python-version 3.10 --no-header --no-annotate --output-file requirements.lock

# Build images with all programs that tasks can need (docs/reference/task-environment.md#an-image-of-your-own).
TASK_IMAGE ?= determined-tasks
images:
	docker build --build-arg TORCH_BACKEND=cpu -t $(TASK_IMAGE):cpu images
	docker build --build-arg TORCH_BACKEND=cu128 -t $(TASK_IMAGE):cuda images

# Build the files of a release from the commit (docs/reference/releases.md). The image needs a Docker engine.
DIST ?= dist
WITHOUT ?=
dist: $(VENV)/.installed-dev
	@rm -rf $(DIST)
	@$(RUN)/python -m scripts.release.build $(DIST) $(addprefix --without ,$(WITHOUT)) $(if $(BASE),--base $(BASE))

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.installed: pyproject.toml requirements.lock scripts/venv
	@scripts/venv $(VENV) .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml requirements.lock scripts/venv
	@scripts/venv $(VENV) '.[dev,aws]'
	@touch $(VENV)/.installed $@
