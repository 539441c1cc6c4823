.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
SHARED ?= ../shared

help: ## what there is to make
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade pip
	$(BIN)/pip install --quiet --editable .
	@touch $@

.venv/installed-dev: .venv/installed
	$(BIN)/pip install --quiet --editable '.[dev]'
	@touch $@

setup: .venv/installed ## make .venv and install fusionc into it

convert: .venv/installed ## convert a sample model; the result, the log and fusion_result.json go to build/
	@rm -rf build && mkdir build
	cd build && FUSIONC_PROCESS_LOG_PATH=log ../$(BIN)/fusionc convert --model ../sample_models/conv_bn.onnx \
		--fusion_switch_file ../switch_configs/default.json
	@echo; echo 'The patterns that took effect, as the log has them:'
	@cat build/log/debug/plog/* | grep "GraphId" | grep -v "effected_times=0" | grep "effected_times="

test: .venv/installed-dev ## run the tests
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not timing and not long"

long: .venv/installed-dev ## run the tests that make test leaves out because they take long (five minutes)
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile -m "long and not timing"

variations: .venv/installed-dev ## run the tests that read a sample of the passes' models, on all of them
	FUSIONC_ALL_VARIATIONS=1 $(BIN)/python -m pytest --numprocesses 2 --dist loadfile -m "not timing" tests/passes \
		tests/requested/target_opset tests/graph_kernel/test_models_of_the_passes.py

timing: .venv/installed-dev ## run the tests that measure time, which say something on an idle machine alone
	$(BIN)/python -m pytest -m timing

processors: .venv/installed-dev ## run the tests as on several processors, and kernels built for arm64 (an hour)
	$(BIN)/python benchmarks/processors.py $(PROCESSORS)

check: .venv/installed-dev ## lint, types, and whether the generated files are fresh
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python docs/generate.py --check
	$(BIN)/python sample_models/make.py --check

PYTHONS ?= $(PYTHON)
dist-check: ## build wheel and source distribution, install both in fresh environments (PYTHONS=...), run the tests there
	$(PYTHON) benchmarks/distributions.py --python $(PYTHONS) $(if $(TESTS),--tests $(TESTS))

docs: .venv/installed-dev ## write docs/ and switch_configs/ from the registry and --help
	$(BIN)/python docs/generate.py

screenshots: .venv/installed-dev ## take the pictures of the page, the plots and README's chart, light and dark (needs chromium)
	$(BIN)/python docs/screenshots.py

samples: .venv/installed-dev ## write sample_models/
	$(BIN)/python sample_models/make.py

sweep: .venv/installed-dev ## convert all real models of ../shared: default, all off, each pass alone
	$(BIN)/python benchmarks/sweep.py $(SHARED)

fuzz: .venv/installed-dev ## glue the models of the tests together, optimize them with random switches, compare
	$(BIN)/python benchmarks/fuzz.py --runs 1000

culprits: .venv/installed-dev ## plant faults in passes, in real models of ../shared, and look whether they are found (half an hour)
	$(BIN)/python benchmarks/culprits.py $(SHARED)

.venv-mutants/installed: pyproject.toml
	$(PYTHON) -m venv .venv-mutants
	.venv-mutants/bin/pip install --quiet --editable '.[dev]' cosmic-ray
	@touch $@

mutants: .venv-mutants/installed ## change fusionc at sampled places and see whether a test of that room fails
	nice -n 15 .venv-mutants/bin/python benchmarks/mutants.py

sizes: ## lines of each room
	@for room in fusionc/*/; do printf '%6s  %s\n' "$$(cat $$(find $$room -name '*.py') | wc -l)" "$$room"; done

clean: ## remove what make has made
	rm -rf .venv .venv-mutants build

.PHONY: help setup convert test long variations timing processors check dist-check docs screenshots samples sweep fuzz culprits mutants sizes clean
