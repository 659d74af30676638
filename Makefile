# Everything happens in the virtual environment .venv; `make setup` makes it, `make VENV=... check` uses another.
VENV ?= .venv
BIN := $(VENV)/bin

# The revision that `make quick` compares with: where this branch left main.
SINCE ?= $(shell git merge-base HEAD main 2>/dev/null || echo HEAD)

.DEFAULT_GOAL := help
.PHONY: help setup proto docs pictures site compared format lint types quick test thorough frameworks slow-tests versions check release constraints examples bench all clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | awk -F'\t' '{ printf "  make %-10s %s\n", $$1, $$2 }'

setup: ## make the virtual environment with all that tests and checks need
	python3 -m venv $(VENV)
	$(BIN)/pip install -e ".[test]"

proto: ## generate code from proto/prograd_proto/program.proto, and lint the schema
	$(BIN)/buf lint proto
	$(BIN)/python -m grpc_tools.protoc --proto_path=proto --python_out=proto --pyi_out=proto \
		proto/prograd_proto/program.proto

docs: ## generate docs/ops.md, docs/passes.md, docs/options.md and the lists of imported operators from the tables in the code
	$(BIN)/compiler ops --markdown > docs/ops.md
	$(BIN)/compiler passes --markdown > docs/passes.md
	$(BIN)/python -m prograd.commands.options_page > docs/options.md
	for page in from-onnx to-onnx from-pytorch; do $(BIN)/python -m compiler.reference.frameworks $$page > docs/$$page-operators.md; done
	PYTHONPATH=tests $(BIN)/python -m frontends.census --page > docs/from-pytorch-networks.md

pictures: ## draw the pictures of README and guide anew, into docs/pictures/
	$(BIN)/python docs/make_pictures.py

site: ## write the site of guide and reference to site/, and check its links; needs `pip install -e ".[docs]"`
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

compared: ## compare with PyTorch, which must be installed, and write docs/compared.md
	$(BIN)/python tests/compared.py

format: ## put all files into the one format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: ## look for faults of form: ruff, and buf for the schema, which is also compared with the last release's
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/buf lint proto
	$(BIN)/buf breaking proto --against proto/released.txtpb

types: ## check types: pyright, strict
	$(BIN)/pyright --pythonpath $(BIN)/python

quick: ## run the tests below 20 ms, and slower ones of the files that differ from main (SINCE=another revision)
	$(BIN)/pytest -n auto -m "not thorough and not slow" --changed-since $(SINCE)

test: ## run the tests that CI runs, on all cores
	$(BIN)/pytest -n auto

thorough: ## run the tests that `make test` leaves out, before a release
	$(BIN)/pytest -n auto -m thorough

# Where the tests are that need other frameworks; some of the others there do not.
FRAMEWORK_TESTS := $(addprefix tests/,exporting frontends house/test_fuzz.py house/test_guide.py importing native/mixed peers)

frameworks: ## run the tests beside PyTorch and others, which need `pip install -e ".[test,frameworks]"`: 12 minutes
	$(BIN)/pytest -n auto $(FRAMEWORK_TESTS)

slow-tests: ## measure all tests, and write the list of slow ones that `make quick` leaves out
	$(BIN)/pytest -n auto -m "" --write-slow-tests

versions: ## run the tests with every Python and NumPy that is supported and found here: half an hour
	$(BIN)/python tests/versions.py

check: lint types ## what CI runs after the tests: form and types

release: ## build wheel and source archive, install and run each anew, and write the notes, into dist/; publishes nothing
	$(BIN)/pip install --quiet -e ".[release]"
	PYTHON=$(BIN)/python .ci/release

constraints: ## write the versions of this environment, with which the workflows test, to .ci/constraints.txt
	$(BIN)/pip freeze --exclude-editable > .ci/constraints.txt

examples: ## compile the programs of examples/ anew
	for script in $(filter-out examples/make_% examples/camera.py examples/cartpole.py,$(wildcard examples/*.py)); do \
		case $$script in examples/from_pytorch.py) $(BIN)/python -c "import torchvision" 2>/dev/null || continue;; esac; \
		case $$script in examples/language_model.py) $(BIN)/python -c "import tokenizers" 2>/dev/null || continue;; esac; \
		$(BIN)/python $$script || exit 1; done

bench: ## measure dispatch, start-up and compile time against their targets
	$(BIN)/python benchmarks/dispatch.py
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/compile_time.py

all: test check ## tests, form and types

clean: ## remove what tools left behind, not the virtual environment
	rm -rf build dist site .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)/*' -prune -exec rm -rf {} +
