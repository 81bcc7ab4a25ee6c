SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --warn-undefined-variables --no-builtin-rules
.DEFAULT_GOAL := help

# Tools are pinned in a module of their own and run from there: nothing has to
# be installed.
TOOL := go tool -modfile=tools/go.mod
# What `go vet`, tests and formatters look at.
PACKAGES := ./...

# The race detector needs a C compiler. CI must have one; elsewhere the tests
# run without it where there is none.
CC_FOUND := $(shell command -v "$$(go env CC)" 2>/dev/null)
RACE := $(if $(CC_FOUND)$(filter true,$(CI)),-race)
CI ?=

.PHONY: help
help: ## Describe the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 22

.PHONY: build
build: ## Build bin/fanoutd and bin/fanoutctl
	CGO_ENABLED=0 go build -trimpath -o bin/fanoutd ./cmd/fanoutd
	CGO_ENABLED=0 go build -trimpath -o bin/fanoutctl ./cmd/fanoutctl

# What is released: one folder for each platform, static binaries that depend on the
# commit and the Go version alone, and what they are made of (CycloneDX).
PLATFORMS ?= linux-amd64 linux-arm64
DIST ?= dist
SBOM := go tool -modfile=tools/sbom/go.mod cyclonedx-gomod

.PHONY: binaries
binaries: ## Build reproducible static binaries below dist/ for PLATFORMS
	@for platform in $(PLATFORMS); do \
		mkdir -p $(DIST)/$$platform; \
		for name in fanoutd fanoutctl; do \
			echo "$(DIST)/$$platform/$$name"; \
			CGO_ENABLED=0 GOOS=$${platform%-*} GOARCH=$${platform#*-} GOAMD64=v1 GOARM64=v8.0 GOFLAGS= \
				go build -trimpath -buildvcs=true -ldflags='-s -w -buildid=' -o $(DIST)/$$platform/$$name ./cmd/$$name; \
		done; \
	done

.PHONY: dist
dist: binaries ## The same, with what they are made of (CycloneDX) and checksums
	@for binary in $(foreach platform,$(PLATFORMS),$(DIST)/$(platform)/fanoutd $(DIST)/$(platform)/fanoutctl); do \
		echo "$$binary.cdx.json"; \
		$(SBOM) bin -json -noserial -output $$binary.cdx.json $$binary; \
	done
	cd $(DIST) && sha256sum */fanoutd */fanoutctl */*.cdx.json > SHA256SUMS

.PHONY: run
run: build ## Build and start the server with the embedded store in ./data
	exec bin/fanoutd

# What the race detector has built waits for a second when it ends, in case that
# somebody is still writing a report. The tests end very many processes.
export GORACE ?= atexit_sleep_ms=50

.PHONY: test
test: ## Run all tests
	$(if $(RACE),CGO_ENABLED=1 )go test $(RACE) -timeout 9m $(PACKAGES)

# examples/install installs what these need: packages of Debian and of npm.
.PHONY: test-examples
test-examples: ## Test the subscribers of examples/ in other languages
	FANOUTD_TEST_EXAMPLES=1 go test -count 1 -timeout 9m ./test/examples

# test/browser/install installs what these need: packages of Debian.
.PHONY: test-browser
test-browser: ## Test the status page in a browser
	FANOUTD_TEST_BROWSER=1 go test -count 1 -timeout 9m ./test/browser

.PHONY: screenshots
screenshots: ## Make the pictures of the status page in docs/images
	FANOUTD_TEST_BROWSER=1 FANOUTD_SCREENSHOTS=$(CURDIR)/docs/images go test -count 1 -run TestScreenshots ./test/browser

# test/packaging/install installs the checkers of systemd and Prometheus where they are missing.
.PHONY: test-packaging
test-packaging: ## Test the binaries that are released and the files of deploy/
	cd test/packaging && go test -count 1 -timeout 9m ./...

# A module of its own, so that those who are measured beside us are no part of us.
.PHONY: test-bench
test-bench: ## Test the program that measures, with a small run of everything it measures
	cd bench && go test -count 1 -parallel 4 -timeout 9m ./...

# Where the program that measures is built, and what it writes down.
BENCH := bench/bin

# suite measures the suite of this name with these flags; the target that does is the
# command in the document.
suite = rm -f $(BENCH)/$(1).jsonl && $(BENCH)/fanoutbench suite $(1) --source . $(2) --output $(BENCH)/$(1).jsonl --document $(DOCUMENT) --command 'make $@'
DOCUMENT ?= docs/benchmarks.md

.PHONY: bench-program
bench-program:
	cd bench && go build -trimpath -o bin/fanoutbench ./cmd/fanoutbench

.PHONY: bench
bench: bench-program ## Measure fanoutd beside others, and write that part of docs/benchmarks.md anew
	$(call suite,short,--duration 1500ms)

.PHONY: bench-growth
bench-growth: bench-program ## The same with what fanoutd costs when there is more of something
	$(call suite,growth,--duration 1500ms)

.PHONY: bench-goals
bench-goals: bench-program ## The same with what it takes longer to say whether it is as we want it
	$(call suite,goals,--duration 3s)

.PHONY: bench-full
bench-full: bench-program ## The same with everything, which takes hours
	$(call suite,full,--duration 10s)

# The packages that have micro-benchmarks.
BENCHMARKED = $(sort $(dir $(addprefix ./,$(shell git grep -l '^func Benchmark' -- '*_test.go'))))

# Each runs for a tenth of a second, six times: the medians are printed, and what the
# runs differ by. To compare with another version, keep what MICRO names and give both to
# benchstat.
MICRO ?= bin/micro.txt

.PHONY: bench-micro
bench-micro: ## Run the micro-benchmarks, and write their results to MICRO (default bin/micro.txt)
	mkdir -p $(dir $(MICRO))
	go test -run '^$$' -bench . -benchtime 100ms -count 6 $(BENCHMARKED) > $(MICRO)
	$(TOOL) benchstat $(MICRO)

.PHONY: capacity
capacity: ## Write the tables and drawings of docs/capacity.md anew, from bench/internal/capacity/constants.json
	cd bench && go run ./cmd/fanoutbench capacity --document ../docs/capacity.md

.PHONY: import-speed
import-speed: ## Compare an import of 100,000 objects with etcd's own client
	FANOUTD_IMPORT_OBJECTS=100000 go test -count 1 -v -timeout 0 ./test/importspeed

# Each round has a seed of its own, which is printed.
SOAK ?= 10m

.PHONY: soak
soak: ## Run the randomized end-to-end test for SOAK (default 10m)
	FANOUTD_SOAK=$(SOAK) $(if $(RACE),CGO_ENABLED=1 )go test $(RACE) -timeout 0 -count 1 -v -run TestWatchersSeeExactlyWhatHappened ./test/e2e

.PHONY: soak-clients
soak-clients: ## Let informers suffer for SOAK (default 10m) with one server, and as long with two
	FANOUTD_SOAK=$(SOAK) $(if $(RACE),CGO_ENABLED=1 )go test $(RACE) -timeout 0 -count 1 -v ./test/clients

# How many streams or connections each kind of hostile client has.
HOSTILE ?= 10000

.PHONY: hostile
hostile: ## Measure what HOSTILE hostile clients (default 10000) cost one who behaves
	FANOUTD_HOSTILE=$(HOSTILE) go test -count 1 -timeout 0 -v ./test/hostile

FUZZTIME ?= 10m

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME (default 10m)
	@grep -rho --include='*_test.go' '^func Fuzz[A-Za-z]*' internal | sed 's/func //' | sort | while read -r target; do \
		package=$$(dirname "$$(grep -rl --include='*_test.go' "^func $$target(" internal)"); \
		echo "$$package $$target"; \
		go test "./$$package" -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x || exit 1; \
	done

.PHONY: fuzz-surface
fuzz-surface: ## Send random bytes, frames and requests for FUZZTIME each (default 10m) to a running server
	FANOUTD_FUZZ=$(FUZZTIME) go test -timeout 0 -count 1 -v ./test/surface

# Each seed is a recording of its own; docs/robustness.md says of what.
SEEDS ?= 10
SECONDS ?= 60

.PHONY: robustness
robustness: ## Let etcd's validator judge SEEDS recordings (default 10) of SECONDS each (default 60)
	cd test/robustness && go test -count 1 -timeout 0 -v -run TestHistoriesAreClean . -args -seeds $(SEEDS) -seconds $(SECONDS)

.PHONY: lint
lint: lint-go lint-proto vulncheck ## Check formatting, code, protocol, generated files and known vulnerabilities

.PHONY: lint-go
lint-go:
	@unformatted=$$($(TOOL) gofumpt -l $$(git ls-files '*.go' | grep -v '^gen/')); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run make fmt:"; echo "$$unformatted"; exit 1; fi
	go mod tidy -diff
	cd tools && go mod tidy -diff
	cd tools/sbom && go mod tidy -diff
	go vet $(PACKAGES)
	cd test/robustness && go vet ./...
	cd test/packaging && go mod tidy -diff && go vet ./...
	cd bench && go mod tidy -diff && go vet ./... && go tool -modfile=../tools/go.mod staticcheck ./...
	$(TOOL) staticcheck $(PACKAGES)
	@fixes=$$(go fix -diff $(PACKAGES) 2>&1) || true; \
	if [ -n "$$fixes" ]; then echo "$$fixes"; echo "run go fix ./..."; exit 1; fi

# The committed image is the protocol that must not break. Only a commit that changes
# the protocol on purpose renews it.
PROTO_IMAGE := proto/fanoutd.binpb

.PHONY: lint-proto
lint-proto:
	$(TOOL) buf lint
	$(TOOL) buf format --diff --exit-code
	$(TOOL) buf breaking --against $(PROTO_IMAGE)
	@fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; \
	$(TOOL) buf generate --output "$$fresh"; \
	diff -r "$$fresh/gen" gen && diff -r "$$fresh/internal/admin/openapi" internal/admin/openapi || { echo "what is generated is not what the protocol says, run make proto"; exit 1; }

.PHONY: fmt
fmt: ## Format the code and the protocol
	$(TOOL) gofumpt -w $$(git ls-files '*.go' | grep -v '^gen/')
	$(TOOL) buf format -w

.PHONY: proto
proto: ## Generate gen/ and the OpenAPI document from proto/
	$(TOOL) buf generate

.PHONY: proto-image
proto-image: ## Accept the protocol as it is now: breaking changes are found against it from here on
	$(TOOL) buf build --exclude-source-info -o $(PROTO_IMAGE)

# A vulnerability is an error. Where the database cannot be reached nothing was checked:
# that is said, and is an error only if VULNCHECK is required, because lint has to work
# without a network, too.
VULNCHECK ?=

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities (needs the vulnerability database)
	@status=0; out=$$($(TOOL) govulncheck $(PACKAGES) 2>&1) || status=$$?; echo "$$out"; \
	if [ $$status = 0 ] || ! grep -q 'fetching vulnerabilities' <<<"$$out"; then exit $$status; fi; \
	echo 'NOT CHECKED for known vulnerabilities: the database cannot be reached'; \
	[ '$(VULNCHECK)' != required ]

.PHONY: clean
clean: ## Remove what was built
	rm -rf bin $(DIST) $(BENCH)
