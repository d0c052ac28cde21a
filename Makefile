# The commands of the repository. Each one installs what it needs first
# (tools/install-packages), so it works in a fresh clone on a fresh Debian 12.
# CMake does the work; CMakePresets.json has the settings.

# A compile job takes up to 1.5 GiB: a machine with many cores and little memory
# must not run one per core.
JOBS ?= $(shell awk -v cores=$$(nproc) '/^MemTotal/ { n = int($$2 / 1572864); n = n > cores ? cores : n; print n < 1 ? 1 : n }' /proc/meminfo)
# Two at a time on every machine: stress tests bring threads of their own.
TEST_JOBS ?= 2
# How long `make fuzz` runs each fuzzer.
FUZZ_SECONDS ?= 5
# How many times as much as `make test` the tests of `make soak` do: 25 is at least a
# million operations in every recorded history, and 25,000 seeds of the simulation.
SOAK_EFFORT ?= 25

PACKAGES := tools/install-packages
CTEST := ctest --output-on-failure --no-tests=error -j$(TEST_JOBS)
# What runs again under instrumentation: threads and memory are what it watches.
# The guest, the installed package and the source tree gain nothing from it.
INSTRUMENTED := -L 'unit|stress|model|sim' -LE 'vm|install|tidy|e2e|smoke'
# Tests whose worth grows with their length.
SOAKED := client_suite_history_stress_test tests_sim_objects_faults_test tests_sim_fabric_faults_test

.DEFAULT_GOAL := help
.PHONY: help demo test build asan tsan fuzz soak format tidy coverage clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-9s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: build ## build the release and run the demonstration
	build/release/bin/yonder demo

test: ## build everything and run all tests
	@$(PACKAGES) build test guest
	cmake --preset dev
	cmake --build --preset dev -j$(JOBS) --target all all_verify_interface_header_sets
	$(CTEST) --preset dev

build: ## build the release; its programs are in build/release/bin
	@$(PACKAGES) build
	cmake --preset release
	cmake --build --preset release -j$(JOBS)

asan tsan: # one recipe: the presets carry the difference
	@$(PACKAGES) build test clang
	cmake --preset $@
	cmake --build --preset $@ -j$(JOBS) --target yonder_instrumented_tests
	$(CTEST) --preset $@ $(INSTRUMENTED)
asan: ## run unit, stress, model and sim tests under AddressSanitizer and UBSan
tsan: ## run the same under ThreadSanitizer

fuzz: ## run every fuzzer for FUZZ_SECONDS
	@$(PACKAGES) build clang
	cmake --preset fuzz -DYONDER_FUZZ_SECONDS=$(FUZZ_SECONDS)
	cmake --build --preset fuzz -j$(JOBS) --target yonder_fuzzers
	$(CTEST) --preset fuzz -L fuzz

soak: ## run the histories and the simulations SOAK_EFFORT times as long
	@$(PACKAGES) build test
	cmake --preset dev
	cmake --build --preset dev -j$(JOBS) --target $(SOAKED)
	for test in $(SOAKED); do build/dev/tests/$$test --effort=$(SOAK_EFFORT) || exit 1; done

format: ## format all C++ files in place
	@$(PACKAGES) test
	git ls-files --cached --others --exclude-standard '*.h' '*.cc' | xargs -r clang-format-19 -i

# No precompiled headers: clang-tidy would need them built.
tidy: ## run clang-tidy over the whole tree
	@$(PACKAGES) build test clang
	cmake --preset asan -B build/tidy -DYONDER_SANITIZE= -DYONDER_UNITY=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON
	run-clang-tidy-19 -quiet -p build/tidy -j$(JOBS) '/(yonder|apps|bench|fuzz|tests)/'

coverage: ## measure what the tests reach; build/coverage/report.html
	@$(PACKAGES) build test cover
	cmake --preset coverage
	cmake --build --preset coverage -j$(JOBS) --target yonder_instrumented_tests
	$(CTEST) --preset coverage $(INSTRUMENTED)
	gcovr --root . --object-directory build/coverage build/coverage --filter yonder/ --exclude '.*_test\.cc' \
	  --exclude yonder/testing/ --exclude-throw-branches --print-summary --html-details build/coverage/report.html

clean: ## remove everything that was built
	rm -rf build
