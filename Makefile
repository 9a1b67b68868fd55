# Two commands do everything on a new machine: `make demo` and `make test`. pip uses the machine's own settings.
PYTHON ?= python3

.PHONY: help demo test wheel lint docs environment clean

help:
	@echo "make demo   a small real model, an engine and the main job on this machine (under 3 minutes when new)"
	@echo "make test   every test layer that this machine can run; LAYERS='unit contract' for some of them"
	@echo "make wheel  dist/llmops-*.whl, for pipx"
	@echo "make lint   ruff, mypy --strict, import-linter"
	@echo "make docs   docs/reference/commands.md from the help of the commands"
	@echo "make clean  remove what was built; .cache keeps the model and the engine, .venv the environment"

demo:
	@$(PYTHON) -m tools.demo

test:
	@$(PYTHON) -m tools.run_layers $(LAYERS)

environment:
	@$(PYTHON) -m tools.environment

wheel: environment
	@rm -rf dist
	.venv/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir dist .
	@ls dist/*.whl

lint: environment
	.venv/bin/python -m ruff check .
	.venv/bin/python -m ruff format --check .
	.venv/bin/python -m mypy
	.venv/bin/lint-imports

docs: environment
	.venv/bin/python -m tools.command_reference

clean:
	rm -rf dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis .cache/test-results
	find . -name __pycache__ -not -path './.venv/*' -not -path './.cache/*' -prune -exec rm -rf {} +
