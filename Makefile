# Every target is one small script in tools/.
.PHONY: setup demo demo-clean test check bench soak docs

setup: ## .venv with pinned, hashed dependencies; nothing when it is up to date
	@tools/setup.sh

demo: setup ## the whole stack on this machine
	@tools/demo.sh

demo-clean: setup ## removes what the demo kept; refused while one runs
	@.venv/bin/gpu-minutes demo clean

test: setup ## all checks and all tests; installs the programs that they need
	@tools/test.sh

check: setup ## style, types and import contracts
	@tools/check.sh

bench: setup ## how fast each stage is
	@.venv/bin/python -m benchmarks

soak: setup ## a day of the exporter, compressed; SCRAPES=2000 tries it
	@tools/soak.sh

docs: setup ## the generated pages
	@tools/docs.sh
