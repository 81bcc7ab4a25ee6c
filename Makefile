SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --warn-undefined-variables --no-builtin-rules
.DEFAULT_GOAL := help

# Tools are pinned in their own module and run from there. Nothing has to be installed.
TOOL := go tool -modfile=$(CURDIR)/tools/go.mod

# The race detector needs a C compiler. With CI=true a missing compiler is an error;
# otherwise the tests then run without the race detector.
CC_FOUND := $(shell command -v "$$(go env CC)" 2>/dev/null)
CI ?=
RACE := $(if $(CC_FOUND)$(filter true,$(CI)),-race)
GOTEST := $(if $(RACE),CGO_ENABLED=1 )go test $(RACE)

# A program built with the race detector sleeps for a second when it exits, in case a
# report is still being written. The tests run thousands of short processes.
export GORACE ?= atexit_sleep_ms=50

# The Go files that people write.
HANDWRITTEN = $(shell git ls-files --cached --others --exclude-standard '*.go' ':!gen/')

# Test folders with their own go.mod, so that an importer of the client does not inherit
# what only tests need.
TEST_MODULES := test/browser test/etcd test/etcd36 test/observability test/packaging test/robustness

.PHONY: help
help: ## Describe the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 26

##### Build

# Go itself does not record the commit in a worktree of git, or if GOFLAGS says so.
COMMIT = $(shell TZ=UTC git log -1 --date=format-local:%Y-%m-%dT%H:%M:%SZ --format=%H,%cd 2>/dev/null)
DIRTY = $(if $(shell git status --porcelain 2>/dev/null | head -1),$(comma)dirty)
comma := ,
LINK_COMMIT = -ldflags='-X github.com/fanoutd/fanoutd/internal/version.linked=$(COMMIT)$(DIRTY)'

.PHONY: build
build: ## Build bin/fanoutd, bin/fanoutctl and bin/fanouttest
	CGO_ENABLED=0 go build -trimpath $(LINK_COMMIT) -o bin/fanoutd ./cmd/fanoutd
	CGO_ENABLED=0 go build -trimpath $(LINK_COMMIT) -o bin/fanoutctl ./cmd/fanoutctl
	CGO_ENABLED=0 go build -trimpath $(LINK_COMMIT) -o bin/fanouttest ./cmd/fanouttest

.PHONY: run
run: build ## Build and start the server with the embedded etcd in ./data
	exec bin/fanoutd

# A release: archives for all platforms, and packages for Linux. The binaries are static. Everything
# depends only on the commit and the versions of Go and of the tools.
PLATFORMS ?= linux-amd64 linux-arm64 darwin-amd64 darwin-arm64 windows-amd64 windows-arm64
DIST ?= dist
SBOM := go tool -n -modfile=tools/sbom/go.mod cyclonedx-gomod
NFPM := go tool -modfile=tools/packages/go.mod nfpm

# The programs of platform $(1). The server is for Linux and macOS.
programs = $(if $(filter windows-%,$(1)),fanoutctl.exe fanouttest.exe,fanoutctl fanoutd fanouttest)
BINARIES := $(foreach p,$(PLATFORMS),$(addprefix $(DIST)/$(p)/,$(call programs,$(p))))

.PHONY: binaries
binaries: $(PLATFORMS:%=binaries-%) ## Build reproducible static binaries in dist/ for PLATFORMS

# This machine's platform is always among these, because its programs write their manuals.
HOST := $(shell go env GOHOSTOS)-$(shell go env GOHOSTARCH)
BUILD_PLATFORM := $(addprefix binaries-,$(sort $(PLATFORMS) $(HOST)))

.PHONY: $(BUILD_PLATFORM)
$(BUILD_PLATFORM): binaries-%:
	@platform=$*; echo "$(DIST)/$$platform"; mkdir -p "$(DIST)/$$platform"; \
	CGO_ENABLED=0 GOOS=$${platform%-*} GOARCH=$${platform#*-} GOAMD64=v1 GOARM64=v8.0 GOFLAGS= \
		go build -trimpath -buildvcs=true -ldflags='-s -w -buildid=' -o "$(DIST)/$$platform/" $(addprefix ./cmd/,$(basename $(call programs,$*)))

# The manual pages and completions are the same on all platforms.
.PHONY: manuals
manuals: binaries-$(HOST)
	deploy/packages/manuals $(DIST)/$(HOST) $(DIST)/manuals

# Everything that a release publishes; see docs/dev/release.md.
.PHONY: dist
dist: binaries manuals ## Build archives, deb and rpm packages, the Helm chart, bills of materials (CycloneDX) and checksums in dist/
	rm -rf $(DIST)/release && mkdir -p $(DIST)/release
	@# The tool takes the platform of the binary from the environment.
	@sbom=$$($(SBOM)); for binary in $(BINARIES); do \
		platform=$$(basename "$$(dirname "$$binary")"); name=$$(basename "$$binary" .exe); \
		echo "$(DIST)/release/$$name-$$platform.cdx.json"; \
		GOOS=$${platform%-*} GOARCH=$${platform#*-} "$$sbom" bin -json -noserial -output "$(DIST)/release/$$name-$$platform.cdx.json" "$$binary"; \
	done
	@# The tool adds the time, and the hashes of itself, which depend on where it was compiled.
	sed -i -e 's/"timestamp": "[^"]*"/"timestamp": "$(shell TZ=UTC git log -1 --format=%cd --date=format-local:%FT%TZ)"/' \
		-e '/^    "tools"/,/^    \]/{/^        "hashes"/,/^        \]/d}' $(DIST)/release/*.cdx.json
	NFPM="$(NFPM)" deploy/packages/build $(DIST) $(PLATFORMS)
	cd $(DIST)/release && sha256sum * > SHA256SUMS

.PHONY: clean
clean: ## Remove everything that was built
	rm -rf bin $(DIST) $(BENCH)

##### Test

# The rules of this code base are tests in test/rules. `go vet` runs on its own, so the
# tests need not repeat it. Most tests wait for a socket or a timer, so more of them run at
# once than there are processors.
.PHONY: check
check: check-format ## Check a change within a minute: format, vet, staticcheck, rules, short tests
	go vet ./...
	$(TOOL) staticcheck ./...
	go test -short -vet=off -p 4 -parallel 8 ./...

P ?= ./...

# The longest packages come first, so that no processor has nothing to do at the end.
LONGEST := ./test/cluster ./test/e2e ./test/failures ./cmd/fanoutctl ./test/hostile ./internal/store ./internal/server ./conformance ./client

# Many tests wait for etcd, for a timer or for another process. `go vet` is a part of make lint.
.PHONY: test
test: ## Run all tests, or those of one package: make test P=./internal/dispatch
	$(GOTEST) -timeout 20m -vet=off -p 3 -parallel 4 $(if $(filter ./...,$(P)),$(LONGEST)) $(P)
	$(if $(filter ./...,$(P)),cd test/observability && $(GOTEST) -timeout 20m ./...)

# docs/dev/testing.md lists these tests.
FULL_SIZE := TestReconnectsLeaveNothingBehind|TestTenThousandChanges|TestHoppingBetweenServers|TestLargeValues|TestStormsEncodeEachEventOnce|TestAwayForADay|TestALiveEventWaitsForOnePartOfASnapshot|TestBoundedAndIsolatedFromReadersThatStop|TestIsolatedFromReadersThatStallAndComeBack|TestSubscriberStuck|TestFanoutdKilled|TestWatchersSeeExactlyWhatHappened|TestPartitions|TestWatchesAtAServerThatGetsTheWholeDatabase|TestAServerThatMissedMuch

.PHONY: test-full-size
test-full-size: ## Run the tests that are smaller under the race detector at their full size
	go test -count 1 -timeout 0 -v -run '$(FULL_SIZE)' ./test/e2e ./test/failures ./test/cluster ./internal/server ./internal/dispatch

# A copy without history has no commit before this one.
UPGRADE_FROM ?= $(shell git rev-parse --verify --quiet HEAD^ || echo HEAD)

# test/failures/install installs the Debian package that this needs.
.PHONY: test-faults
test-faults: ## Test a cluster with a slow disk, and its upgrade from the commit UPGRADE_FROM (default the one before this)
	FANOUTD_TEST_SLOW_DISK=1 FANOUTD_TEST_UPGRADE_FROM=$(UPGRADE_FROM) \
	go test -count 1 -timeout 20m -v -run 'TestSlowDiskOfOneServerOfACluster|TestUpgradeOfACluster' ./test/failures

# examples/install installs the Debian and npm packages that these tests need, except for Node.js.
.PHONY: test-examples
test-examples: ## Run the commands of examples/README.md and of the pages of the clients
	FANOUTD_TEST_EXAMPLES=1 go test -count 1 -timeout 20m ./test/examples

# examples/ruby/install installs the Debian packages that this test needs.
.PHONY: test-stubs
test-stubs: ## Test the generated code of other languages: docs/clients/other.md
	FANOUTD_TEST_STUBS=1 go test -count 1 -timeout 20m ./test/stubs

# clients/python/install installs the Debian packages that these targets need. The packages belong to
# Debian's interpreter.
PYTHON ?= /usr/bin/python3

.PHONY: test-python
test-python: ## Test the Python client: types, its tests, and the conformance kit
	clients/python/check-generated
	cd clients/python && mypy
	go build -o bin/fanoutd ./cmd/fanoutd
	go build -o bin/fanouttest ./cmd/fanouttest
	go build -o bin/conformance ./conformance
	cd clients/python && FANOUTD=$(CURDIR)/bin/fanoutd FANOUTTEST=$(CURDIR)/bin/fanouttest $(PYTHON) -m unittest discover -t . -s tests
	bin/conformance -- $(PYTHON) clients/python/conformance.py
	FANOUTD_TEST_MUTANTS=python go test -count 1 -timeout 20m ./conformance/mutants
	FANOUTD_TEST_CLIENTS=python go test -count 1 -timeout 20m ./test/clients ./test/behaviour

# The mutants of the Node.js client are made from what test-node has compiled.
MUTANTS ?= go,python,node

.PHONY: test-mutants
test-mutants: ## Test that the conformance kit notices wrong versions of the clients
	FANOUTD_TEST_MUTANTS=$(MUTANTS) go test -count=1 ./conformance/mutants

# The build leaves files in its folder. The wheel is built from the sdist.
.PHONY: client-python
client-python:
	@folder=$$(mktemp -d); trap 'rm -rf "$$folder"' EXIT; \
	cp -r clients/python/. "$$folder" && \
	$(PYTHON) -m build --no-isolation --outdir $(DIST) "$$folder"

# The client for Node.js. Its packages are those of the lock file.
NODE_CLIENT := clients/node
NODE_MODULES := $(NODE_CLIENT)/node_modules/.package-lock.json

$(NODE_MODULES): $(NODE_CLIENT)/package-lock.json
	cd $(NODE_CLIENT) && npm ci --ignore-scripts --no-audit --no-fund
	touch $@

.PHONY: test-node
test-node: $(NODE_MODULES) lint-proto-node ## Test the client for Node.js with a real server and with the conformance kit
	CGO_ENABLED=0 go build -trimpath -o bin/fanoutd ./cmd/fanoutd
	CGO_ENABLED=0 go build -trimpath -o bin/fanouttest ./cmd/fanouttest
	CGO_ENABLED=0 go build -trimpath -o bin/conformance ./conformance
	cd $(NODE_CLIENT) && npm run --silent lint && npm run --silent compile && FANOUTTEST=$(CURDIR)/bin/fanouttest npm test
	$(NODE_CLIENT)/consumer/check
	bin/conformance -- node $(NODE_CLIENT)/build/conformance/main.js
	FANOUTD_TEST_MUTANTS=node go test -count 1 -timeout 20m ./conformance/mutants
	FANOUTD_TEST_CLIENTS=node go test -count 1 -timeout 20m ./test/clients ./test/behaviour

.PHONY: client-node
client-node: $(NODE_MODULES)
	mkdir -p $(DIST)
	cd $(NODE_CLIENT) && npm run --silent build && npm pack --silent --pack-destination $(CURDIR)/$(DIST)

.PHONY: clients
clients: client-python client-node ## Build the clients in dist/: an sdist and a wheel for Python, an npm package for Node.js

.PHONY: test-newest
test-newest: $(NODE_MODULES) ## Test the Python and Node.js clients with the newest versions of what they need (needs root and debootstrap)
	CGO_ENABLED=0 go build -trimpath -o bin/ ./cmd/fanoutd ./cmd/fanouttest
	clients/check-newest

# test/browser/install installs the Debian packages that these tests need.
.PHONY: test-browser
test-browser: ## Test the status page in a browser
	cd test/browser && FANOUTD_TEST_BROWSER=1 go test -count 1 -timeout 20m ./...

# test/packaging/install installs the tools and the Debian that these tests need. Tests that need root skip themselves without CI=true.
.PHONY: test-packaging
test-packaging: ## Test the release binaries and the files in deploy/
	cd test/packaging && go test -count 1 -timeout 30m ./...

.PHONY: test-robustness
test-robustness: ## Test short recordings with etcd's validator, and that it notices faults
	cd test/robustness && go test -count 1 -timeout 20m ./... -args -seeds 2

.PHONY: test-bench
test-bench: ## Test the benchmark program with a small run of each measurement
	cd bench && go test -count 1 -parallel 4 -timeout 20m ./...

# Each round prints its random seed.
SOAK ?= 10m

.PHONY: soak
soak: ## Run the randomized end-to-end test for SOAK (default 10m)
	FANOUTD_SOAK=$(SOAK) $(GOTEST) -timeout 0 -count 1 -v -run TestWatchersSeeExactlyWhatHappened ./test/e2e

.PHONY: soak-partition
soak-partition: ## Run the test of network partitions for SOAK (default 10m), and print the longest outages
	FANOUTD_SOAK=$(SOAK) $(GOTEST) -timeout 0 -count 1 -v -run TestPartitions ./test/e2e

# How often servers are killed while they write the same keys.
KILLS ?= 50

.PHONY: soak-history
soak-history: ## Run the test of histories and rules with KILLS kills (default 50) of servers
	FANOUTD_KILLS=$(KILLS) $(GOTEST) -timeout 0 -count 1 -v -run TestEveryWriteHasOneRecord ./test/e2e

# The clients of other languages that take part, such as CLIENTS=python,node. make test-python and make
# test-node make them ready.
CLIENTS ?=

.PHONY: soak-clients
soak-clients: ## Run the randomized test of the clients for SOAK (default 10m), with one server and with two
	FANOUTD_SOAK=$(SOAK) FANOUTD_TEST_CLIENTS=$(CLIENTS) $(GOTEST) -timeout 0 -count 1 -v ./test/clients

# The number of streams or connections of each kind of hostile client.
HOSTILE ?= 10000

.PHONY: hostile
hostile: ## Measure what HOSTILE hostile clients (default 10000) cost a well-behaved one
	FANOUTD_HOSTILE=$(HOSTILE) go test -count 1 -timeout 0 -v ./test/hostile

# The number of watchers. docs/tasks/operate.md has the figures of a run.
WATCHERS ?= 200

.PHONY: drain-outage
drain-outage: ## Measure how long WATCHERS watchers (default 200) are away in a rolling restart, with and without a drain
	FANOUTD_DRAIN_OUTAGE=$(WATCHERS) go test -count 1 -timeout 0 -v -run TestDrainOutage ./test/failures

FUZZTIME ?= 10m

.PHONY: fuzz
fuzz: ## Run each fuzz target for FUZZTIME (default 10m)
	@grep -rho --include='*_test.go' '^func Fuzz[A-Za-z]*' client cmd internal test | sed 's/func //' | sort | while read -r target; do \
		package=$$(dirname "$$(grep -rl --include='*_test.go' "^func $$target(" client cmd internal test)"); \
		echo "$$package $$target"; \
		go test "./$$package" -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x || exit 1; \
	done

.PHONY: fuzz-surface
fuzz-surface: ## Send random bytes, frames and requests to a running server, each for FUZZTIME (default 10m)
	FANOUTD_FUZZ=$(FUZZTIME) go test -timeout 0 -count 1 -v ./test/surface

# Each seed is one recording. docs/dev/robustness.md describes the recordings. CARRIER is the method of
# all watches, watch or subscribe; without it, half of the watchers use each.
SEEDS ?= 10
SECONDS ?= 60
CARRIER ?=

.PHONY: robustness
robustness: ## Check SEEDS recordings (default 10) of SECONDS each (default 60) with etcd's validator
	cd test/robustness && go test -count 1 -timeout 0 -v -run "TestHistoriesAreClean|TestHistoriesOfAClusterAreClean" . -args -seeds $(SEEDS) -seconds $(SECONDS) -carrier "$(CARRIER)"

##### Lint and generate

.PHONY: lint
lint: lint-go lint-proto lint-proto-node vulncheck ## Check formatting, code, protocol, generated files and known vulnerabilities

.PHONY: check-format
check-format:
	@unformatted=$$($(TOOL) gofumpt -l $(HANDWRITTEN)); \
	if [ -n "$$unformatted" ]; then echo "not formatted, run make fmt:"; echo "$$unformatted"; exit 1; fi

.PHONY: lint-go
lint-go: check-format
	go mod tidy -diff
	go vet ./...
	@for os in darwin windows; do \
		echo "$$os: vet"; \
		GOOS=$$os go vet ./cmd/fanoutctl ./cmd/fanouttest ./client/... ./clienttest ./internal/ctl/...; \
	done
	$(TOOL) staticcheck ./...
	@fixes=$$(go fix -diff ./... 2>&1) || true; \
	if [ -n "$$fixes" ]; then echo "$$fixes"; echo "run go fix ./..."; exit 1; fi
	@for module in tools tools/sbom tools/packages; do \
		echo "$$module: go mod tidy -diff"; \
		(cd $$module && go mod tidy -diff); \
	done
	@for module in bench $(TEST_MODULES); do \
		echo "$$module: go mod tidy -diff, vet, staticcheck"; \
		(cd $$module && go mod tidy -diff && go vet ./... && $(TOOL) staticcheck ./...); \
	done

# The committed image is the protocol that must not break. Only a commit that breaks the
# protocol on purpose renews it.
PROTO_IMAGE := proto/fanoutd.binpb

.PHONY: lint-proto
lint-proto:
	$(TOOL) buf lint
	$(TOOL) buf format --diff --exit-code
	$(TOOL) buf breaking --against $(PROTO_IMAGE)
	@fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; \
	$(TOOL) buf generate --output "$$fresh"; \
	diff -r "$$fresh/gen" gen && diff -r "$$fresh/internal/admin/openapi" internal/admin/openapi || { echo "the generated files do not match the protocol, run make proto"; exit 1; }
	clients/python/check-generated

# Without the generator, which is an npm package, nothing is checked.
.PHONY: lint-proto-node
lint-proto-node:
	@fresh=$$(mktemp -d); trap 'rm -rf "$$fresh"' EXIT; \
	if [ -d $(NODE_CLIENT)/node_modules ]; then \
		$(TOOL) buf generate --template $(NODE_CLIENT)/buf.gen.yaml --output "$$fresh"; \
		diff -r "$$fresh/$(NODE_CLIENT)/src/gen" $(NODE_CLIENT)/src/gen || { echo "the generated files do not match the protocol, run make proto"; exit 1; }; \
	fi

.PHONY: fmt
fmt: ## Format the code and the protocol
	$(TOOL) gofumpt -w $(HANDWRITTEN)
	$(TOOL) buf format -w

.PHONY: proto
proto: ## Generate gen/, the OpenAPI document and the code of other clients from proto/
	$(TOOL) buf generate
	@if command -v protoc >/dev/null && command -v grpc_python_plugin >/dev/null; then clients/python/generate; \
	else echo "protoc or grpc_python_plugin is missing, run clients/python/install: the Python code stays as it is"; fi
	@if [ -d $(NODE_CLIENT)/node_modules ]; then $(TOOL) buf generate --template $(NODE_CLIENT)/buf.gen.yaml; \
	else echo "$(NODE_CLIENT)/node_modules is missing, run make test-node: the TypeScript code stays as it is"; fi

.PHONY: proto-image
proto-image: ## Make the current protocol the one that later changes must not break
	$(TOOL) buf build --exclude-source-info -o $(PROTO_IMAGE)

# A known vulnerability is an error. Lint must also work without a network, so an
# unreachable database is only reported, unless VULNCHECK=required.
VULNCHECK ?=

.PHONY: vulncheck
vulncheck: ## Look for known vulnerabilities (needs the vulnerability database)
	@status=0; out=$$($(TOOL) govulncheck ./... 2>&1) || status=$$?; echo "$$out"; \
	if [ $$status = 0 ] || ! grep -q 'fetching vulnerabilities' <<<"$$out"; then exit $$status; fi; \
	echo 'NOT CHECKED for known vulnerabilities: the database cannot be reached'; \
	[ '$(VULNCHECK)' != required ]

##### Measure

# The benchmark program is built here and writes its results here.
BENCH := bench/bin

# suite runs the suite $(1) with the flags $(2). The document names the make target as
# the command that produced it.
suite = rm -f $(BENCH)/$(1).jsonl && $(BENCH)/fanoutbench suite $(1) --source . $(2) --output $(BENCH)/$(1).jsonl --document $(DOCUMENT) --command 'make $@'
DOCUMENT ?= docs/dev/benchmarks.md

.PHONY: bench-program
bench-program:
	cd bench && go build -trimpath -o bin/fanoutbench ./cmd/fanoutbench

.PHONY: bench
bench: bench-program ## Measure fanoutd next to its peers, and update docs/dev/benchmarks.md
	$(call suite,short,--duration 1500ms)

.PHONY: bench-growth
bench-growth: bench-program ## Measure how costs grow, and update docs/dev/benchmarks.md
	$(call suite,growth,--duration 1500ms)

.PHONY: bench-goals
bench-goals: bench-program ## Measure every performance goal, update docs/dev/benchmarks.md, and fail if a goal is missed
	@status=0; \
	{ $(call suite,goals,--duration 3s --require-goals); } || status=$$?; \
	{ $(call suite,subscribe,--duration 3s --require-goals); } || status=$$?; \
	{ $(call suite,calls,--duration 3s --require-goals); } || status=$$?; \
	{ $(call suite,state,--require-goals); } || status=$$?; \
	{ $(call suite,watches,--duration 3s --require-goals); } || status=$$?; \
	exit $$status

.PHONY: bench-subscribe
bench-subscribe: bench-program ## Measure streams with many watches, and update docs/dev/benchmarks.md
	$(call suite,subscribe,--duration 3s)

.PHONY: bench-calls
bench-calls: bench-program ## Measure reads and writes, and what default limits cost, and update docs/dev/benchmarks.md
	$(call suite,calls,--duration 3s)

.PHONY: bench-state
bench-state: bench-program ## Measure the memory of a million objects, and a start with them, and update docs/dev/benchmarks.md
	$(call suite,state,)

.PHONY: bench-watches
bench-watches: bench-program ## Measure events of very many interests, and streams with one watch, and update docs/dev/benchmarks.md
	$(call suite,watches,--duration 3s)

# How long each rate and each side of a kill is measured, how often all is repeated, and how long the cluster
# delivers as fast as it can.
CLUSTER ?= 5s
CLUSTER_REPEATS ?= 3
FANOUT ?= 10m
cluster = $(BENCH)/fanoutbench suite cluster --source . $(1) --output $(BENCH)/cluster.jsonl --command 'make $@'

.PHONY: bench-cluster
bench-cluster: bench-program ## Measure three servers that are their own etcd cluster, also while one is killed, and update docs/dev/benchmarks.md
	rm -f $(BENCH)/cluster.jsonl
	@status=0; \
	{ $(call cluster,--duration $(CLUSTER) --repeats $(CLUSTER_REPEATS) --scenarios cluster-load$(comma)cluster-kill$(comma)cluster-outage); } || status=$$?; \
	{ $(call cluster,--duration $(FANOUT) --repeats 1 --scenarios cluster-fan-out); } || status=$$?; \
	$(BENCH)/fanoutbench report --document $(DOCUMENT) $(BENCH)/cluster.jsonl || status=$$?; \
	exit $$status

# bench/copies/python/install installs the Debian packages that this needs.
.PHONY: bench-copies
bench-copies: bench-program $(NODE_MODULES) ## Measure the informers of each language beside clients of etcd and NATS
	cd $(NODE_CLIENT) && npm run --silent compile
	cd bench/copies/node && npm ci --ignore-scripts --no-audit --no-fund
	$(BENCH)/fanoutbench copies --source .

.PHONY: bench-full
bench-full: bench-program ## Measure everything, which takes hours, and update docs/dev/benchmarks.md
	$(call suite,full,--duration 10s)

# The packages that have micro-benchmarks.
BENCHMARKED = $(sort $(dir $(addprefix ./,$(shell git grep -l '^func Benchmark' -- '*_test.go' ':!bench'))))

# Each benchmark runs six times for a tenth of a second; benchstat prints the medians and
# their spread. To compare two versions, keep both MICRO files and give them to benchstat.
MICRO ?= bin/micro.txt

.PHONY: bench-micro
bench-micro: ## Run the micro-benchmarks, and write their results to MICRO (default bin/micro.txt)
	mkdir -p $(dir $(MICRO))
	go test -run '^$$' -bench . -benchtime 100ms -count 6 $(BENCHMARKED) > $(MICRO)
	$(TOOL) benchstat $(MICRO)

.PHONY: capacity
capacity: ## Generate the tables and drawings of docs/dev/capacity.md from bench/internal/capacity/constants.json
	cd bench && go run ./cmd/fanoutbench capacity --document ../docs/dev/capacity.md

.PHONY: import-speed
import-speed: ## Compare an import of 100,000 objects with etcd's own client
	FANOUTD_IMPORT_OBJECTS=100000 go test -count 1 -v -timeout 0 ./test/importspeed

.PHONY: screenshots
screenshots: ## Make the pictures of the status page in docs/images
	cd test/browser && FANOUTD_TEST_BROWSER=1 FANOUTD_SCREENSHOTS=$(CURDIR)/docs/images go test -count 1 -run TestScreenshots ./...
