# make demo   the shop example on every L7 engine, the same requests to each, the answers side by side;
#             in containers when a docker daemon answers (images are built from the engines here if there are none)
# make up     the same, left running (lbgen ps, lbgen down)
# make docs   generated pages of docs/ anew, and the site in build/site
# make farm   other versions of the engines, kept apart from the host (python -m tests.support.farm says where)
# make test-versions   conformance, differential, fingerprints, and the examples verified on all versions of all engines,
#                      the farm's too; a table at the end
# make drills   all of what `make test` takes a sample of: faults at every step, every command as every user (hours);
#               and the goals of forwarding in the kernel (needs root and wrk)
# make kubernetes   drills in a cluster of two nodes, whose programs are built from Go modules the first time (nine CPU
#               minutes; needs root, Go, docker, containerd, containernetworking-plugins, conntrack and nft) into the folder
#               $LBGEN_KUBERNETES, or in the cluster of $KUBECONFIG
# make test   everything: format, lint, layers, types, tests on the real engines
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
LBGEN_KUBERNETES ?= build/kubernetes
TOPOLOGY ?= examples/shop/topology.yaml

.PHONY: demo up down test test-versions drills kubernetes golden matrix docs farm clean

demo: $(VENV)/.demo
	$(BIN)/python examples/demo.py $(TOPOLOGY)

up: $(VENV)/.demo
	$(BIN)/lbgen up $(TOPOLOGY)

down: $(VENV)/.demo
	$(BIN)/lbgen down

test: $(VENV)/.test
	PYTHON=$(BIN)/python sh tests/run.sh

test-versions: $(VENV)/.test
	$(BIN)/python -m tests.support.versions

drills: $(VENV)/.test
	$(BIN)/python tests/phases.py --drills
	$(BIN)/python -m tests.bench.kernel_reload
	$(BIN)/python -m tests.bench.kernel_reload --direct
	$(BIN)/python -m tests.bench.direct_cost
	$(BIN)/python -m tests.bench.kernel_rates

kubernetes: $(VENV)/.test
	[ -n "$$KUBECONFIG" ] || sh tests/kubernetes/build.sh $(LBGEN_KUBERNETES)
	LBGEN_KUBERNETES=$(LBGEN_KUBERNETES) $(BIN)/python -m pytest -q --drills tests/kubernetes; \
	code=$$?; cat build/drills/kubernetes.md; exit $$code

farm: $(VENV)/.test
	$(BIN)/python -m tests.support.farm

golden: $(VENV)/.test
	$(BIN)/python -m pytest -q tests/golden tests/errors --update-golden

matrix: $(VENV)/.test
	$(BIN)/python -m lbgen.conformance --markdown docs/conformance.md
	$(BIN)/python docs/site/generate.py

docs: $(VENV)/.docs
	$(BIN)/python docs/site/generate.py
	$(BIN)/mkdocs build --quiet --strict --config-file docs/site/mkdocs.yml

$(VENV)/bin/python:
	PYTHON=$(PYTHON) sh tests/venv.sh $(VENV)

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[engines,docker]'
	touch $@

# Not compiled: less than half of it is ever imported, and that once.
$(VENV)/.test: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --no-compile --editable '.[engines,dev]'
	touch $@ $(VENV)/.demo

$(VENV)/.docs: pyproject.toml | $(VENV)/.test
	$(BIN)/python -m pip install --quiet --editable '.[engines,dev,docs]'
	touch $@

clean:
	rm -rf $(VENV) dist build
