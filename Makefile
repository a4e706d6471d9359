# Every target is safe to repeat. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export ANSIBLE_CONFIG := $(CURDIR)/ansible.cfg
export PATH := $(CURDIR)/$(BIN):$(PATH)
# The targets install what the tests need, so a tool that is missing is a failure and no skipped test.
export BEDPLATE_TOOLS := required
export MOLECULE_GLOB := molecule/*/molecule.yml

# Ansible's loader compiles the collection in each process; what tests start keeps the compiled code. Not for benchmarks, nor for sanity.
TESTS := lint-ansible unit simulation playbook-tests test-core-min test-core-max molecule guest metal metal-one test-full $(addprefix full-,slurm slurm-refused \
  slurm-packages roles nodes guest gpu daytwo daytwo2 driver health update metal)
$(TESTS): export PYTHONPATH := $(CURDIR)/tests/kit/compiled
# Without it each of the processes compiles the tests again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help
help:  ## This list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(VENV)/.installed: requirements/dev.txt
	@$(PYTHON) -c 'import sys, ensurepip; assert sys.version_info >= (3, 11)' 2>/dev/null || lab/bootstrap
	$(PYTHON) -m venv $(VENV)
	@# The lock names every package, so pip resolves nothing: a newer release on the index is no reason to refuse the lock.
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/dev.txt
	@$(BIN)/pip check --quiet --disable-pip-version-check
	@touch $@

.PHONY: venv
venv: $(VENV)/.installed  ## Python environment in .venv, locked by hash

# Redfish clients of others, with which tests compare the simulator of BMCs: apart, since bedplate needs none of their packages.
ORACLES := .venv-oracles
$(ORACLES)/.installed: requirements/oracles.txt
	$(PYTHON) -m venv $(ORACLES)
	$(ORACLES)/bin/pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/oracles.txt
	@$(ORACLES)/bin/pip check --quiet --disable-pip-version-check
	@touch $@

.PHONY: oracles
oracles: $(ORACLES)/.installed

.PHONY: lab
lab: venv  ## Boot a rack of nodes and turn it into a Slurm GPU cluster that runs a job
	$(BIN)/python -m lab up

.PHONY: lab-down
lab-down:  ## Remove every trace of the lab (python3 -m lab down keeps the node image)
	$(PYTHON) -m lab down --all

.PHONY: tools
tools:
	@lab/bootstrap tools

.PHONY: lint-python
lint-python: venv
	ruff check .
	ruff format --check .
	mypy
	$(BIN)/python -m tools.architecture --check
	$(BIN)/python -m tools.prose
	yamllint --strict .

.PHONY: lint-ansible
lint-ansible: venv
	$(BIN)/python -m tools.lint_ansible

.PHONY: sanity
sanity: venv  ## ansible-test sanity on the built collection, with the oldest Python of nodes, without pylint
	$(BIN)/python -m tools.sanity

.PHONY: lint
lint: lint-python lint-ansible  ## ansible-lint (production), yamllint, ruff, mypy (strict)

.PHONY: unit
unit: venv tools oracles  ## Unit tests
	pytest -n 2 -m "not simulation and not playbooks and not daemons" tests/unit

.PHONY: simulation
simulation: venv tools  ## Fabrics of up to 1,024 HCAs through the real OpenSM, and through the playbooks
	pytest -n 2 -m simulation tests/unit

.PHONY: playbook-tests
playbook-tests: venv  ## Tests that run whole playbooks and inventories on this machine
	pytest -n 2 --dist loadfile --durations=25 -m playbooks tests/unit

.PHONY: test-fast
test-fast: venv tools  ## Lint, types and unit tests: about five minutes on two cores
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint-python lint-ansible unit

.PHONY: test-core-min
test-core-min: venv  ## Unit tests and syntax on the oldest ansible-core of the range
	@lab/core-end min

.PHONY: test-core-max
test-core-max: venv  ## Unit tests and syntax on the newest ansible-core of the range
	@lab/core-end max

.PHONY: molecule
molecule: venv  ## Every role in containers
	$(BIN)/python -m lab molecule --jobs 3

.PHONY: daemon-tests
daemon-tests: venv tools  ## Tests that start a Slurm of their own, and mostly wait for it
	pytest -m daemons tests/unit

# Sanity's tests run one after the other and leave a core idle.
.PHONY: sanity-and-playbooks
sanity-and-playbooks: venv
	@$(MAKE) --no-print-directory --jobs=3 --output-sync=target sanity playbook-tests daemon-tests

.PHONY: test
test: test-fast sanity-and-playbooks simulation test-core-min test-core-max metal-one molecule  ## What a change must pass: lint, types, unit tests on both ends, sanity, fabrics simulated, a machine from off, every role in containers

.PHONY: guest
guest: venv  ## Roles on a virtual machine that reboots, under emulation (as root)
	pytest -m guest -x -rA -o faulthandler_timeout=1800 --durations=0 tests/guest

.PHONY: metal
metal: venv  ## Four machines that are off become nodes of a cluster; bare machines refuse what was not ordered (as root)
	pytest -m metal -x -rA -s -o faulthandler_timeout=1800 --durations=0 tests/unit/provision tests/guest

.PHONY: metal-one
metal-one: venv  ## One machine that is off becomes a known node, by its BMC and a medium (as root)
	pytest -m metal -x -rA -s -o faulthandler_timeout=1800 --durations=0 tests/guest/test_machine_from_off.py

.PHONY: test-full
test-full: venv tools guest  ## Slurm 24.11 and 26.05 from Debian's archive; the real driver, compiled; containers, dnf, a site without a network (as root)
	pytest -m full -rs --durations=0 tests/unit
	$(BIN)/python -m lab molecule --on-request

.PHONY: nightly
nightly: venv tools  ## A plan of 8,192 HCAs routed by the real OpenSM; every fault of a running fabric (seven minutes)
	pytest -n 2 --dist worksteal -m nightly -rsA -o faulthandler_timeout=7200 tests/unit

# What takes minutes by itself: a target each, at most 45 minutes; what each said last stands in docs/testing.md.
.PHONY: full-slurm
full-slurm: venv  ## Every option of Slurm edited under running jobs, on a real cluster (30 minutes)
	$(BIN)/python -m tools.full_results slurm -- $(BIN)/python -m lab molecule -v slurm_keys

.PHONY: full-slurm-refused
full-slurm-refused: venv  ## Every configuration of broken_configurations.yml on a real Slurm, under running jobs
	$(BIN)/python -m tools.full_results slurm-refused -- env BEDPLATE_FULL=slurm $(BIN)/python -m lab molecule -v slurm

.PHONY: full-slurm-packages
full-slurm-packages: venv  ## Slurm from packages with SchedMD's names: the whole scenario slurm by apt, and rpms by dnf (25 minutes)
	$(BIN)/python -m tools.full_results slurm-packages -- $(BIN)/python -m lab molecule -v slurm_schedmd slurm_dnf

.PHONY: full-roles
full-roles: venv  ## Every mutant of roles/ and playbooks/ on recorded nodes (20 minutes)
	$(BIN)/python -m tools.full_results roles --minutes 20 -- bash -c \
	  'pytest -m full_roles tests/unit/recorded_roles/test_named_mutants.py tests/unit/backup && $(BIN)/python -m tools.mutate_roles'

.PHONY: full-nodes
full-nodes: venv  ## Packages, files and units on real machines; settings that are taken away; wrong partitions of a subnet manager; pylint and the newest Python in sanity
	$(BIN)/python -m tools.full_results nodes -- env BEDPLATE_FULL=nodes bash -c \
	  '$(BIN)/python -m tools.sanity rest && $(BIN)/python -m lab molecule -v --jobs 2 primitives opensm node_settings'

.PHONY: full-guest
full-guest: venv  ## make guest, and its row in docs/testing.md
	$(BIN)/python -m tools.full_results guest -- make --no-print-directory guest

.PHONY: full-gpu
full-gpu: venv tools  ## NVIDIA's set replaced on all nodes; containers, dnf, sites without a network, without a cluster file; Slurm's releases
	$(BIN)/python -m tools.full_results gpu -- env BEDPLATE_FULL=gpu bash -c \
	  'pytest -m full -rs tests/unit && $(BIN)/python -m lab molecule -v --jobs 2 gpu_stack gpu_ubuntu gpu_dnf plain container_runtime air_gap'

.PHONY: full-daytwo
full-daytwo: venv  ## Rolls under jobs; every fault of tests/kit/roll_faults.yml during a roll
	$(BIN)/python -m tools.full_results daytwo -- env BEDPLATE_FULL=daytwo bash -c \
	  'pytest -m full -rs tests/unit/slurm/nodes & faults=$$!; $(BIN)/python -m lab molecule -v --jobs 3 daytwo daytwo_driver daytwo_guest; \
	  result=$$?; wait $$faults && exit $$result'

.PHONY: full-daytwo2
full-daytwo2: venv  ## Slurm upgraded, a controller lost and restored, another one takes over, keys turned, a node replaced, packages patched, each under jobs
	$(BIN)/python -m tools.full_results daytwo2 -- bash -c \
	  'pytest -m full -rs tests/unit/slurm/keys & orders=$$!; \
	  $(BIN)/python -m lab molecule -v --jobs 2 slurm_upgrade recover slurm_two slurm_restore slurm_keys_turned patching; \
	  result=$$?; wait $$orders && exit $$result'

.PHONY: full-driver
full-driver: venv  ## Debian's real driver, compiled by the real DKMS on both of its releases
	$(BIN)/python -m tools.full_results driver -- $(BIN)/python -m lab molecule -v gpu_driver

.PHONY: full-fabric
full-fabric: venv tools  ## make nightly, and its row in docs/testing.md
	$(BIN)/python -m tools.full_results fabric -- make --no-print-directory nightly

# Both mostly wait, so they run side by side.
.PHONY: full-health
full-health: venv tools  ## Health of nodes: 400,000 fuzzed lines and readings, the limiter on 100 slurmd, real agents and Prometheus
	$(BIN)/python -m tools.full_results health -- env BEDPLATE_FULL=health BEDPLATE_SLURMD=100 \
	  $(MAKE) --no-print-directory --jobs=2 --output-sync=target health-on-slurm health-on-machines

.PHONY: health-on-slurm
health-on-slurm: venv tools
	pytest -n 2 --dist worksteal -o faulthandler_timeout=1800 -m full_health tests/unit/health
	pytest -m "daemons and not full_health" tests/unit/health/control
	pytest tests/unit/health/scripts/test_hostile_verdicts.py

.PHONY: health-on-machines
health-on-machines: venv
	$(BIN)/python -m lab molecule -v health
	pytest -m guest -x -o faulthandler_timeout=1800 tests/guest/test_node_health.py

.PHONY: full-metal
full-metal: venv  ## make metal, and its row in docs/testing.md
	$(BIN)/python -m tools.full_results metal -- make --no-print-directory metal

.PHONY: full-update
full-update: venv  ## A cluster of the release before, updated to this one under running jobs
	$(BIN)/python -m tools.full_results update -- pytest -m update -x -rA -o faulthandler_timeout=1800 --durations=0 tests/update

.PHONY: bench
bench: venv  ## Measure the budgets of docs/performance.md
	$(BIN)/python -m benchmarks

.PHONY: lock
lock:  ## Renew requirements/*.txt from requirements/*.in (needs uv)
	for f in dev run oracles; do uv pip compile --quiet --universal --generate-hashes --no-header --no-annotate --python-version 3.11 requirements/$$f.in -o requirements/$$f.txt; done
