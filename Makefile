# Capiloop. `make help` lists the targets.
#
# The toolchain is newer than go.mod's: the standard library of 1.26 has known
# vulnerabilities that 1.27.3 does not. Go fetches it by itself.
export GOTOOLCHAIN := go1.27.3
# What ships has no C in it. The race detector needs C and switches it on itself.
export CGO_ENABLED ?= 0

T ?= ./...
B ?= .
COUNT ?= 1
KILLS ?= 50
FUZZTIME ?= 60s
GOTESTFLAGS ?=
export GOTESTFLAGS

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# timetzdata: time zones must be known in a container without /usr/share/zoneinfo.
BUILDFLAGS = -trimpath -tags timetzdata -ldflags "-s -w -X main.version=$(VERSION)"

.DEFAULT_GOAL := help
.PHONY: help build run test test-short fmt fmt-diff lint vuln check fuzz bench soak cover tools verify docs clean hooks

help: ## list the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## bin/capiloop: static, stripped
	go build $(BUILDFLAGS) -o bin/capiloop ./cmd/capiloop

run: ## the demo: server and sandbox on this machine, no Meta account needed
	go run ./cmd/capiloop demo

test: ## everything a commit must pass; T=./capi/... runs vet and the tests of these packages only
	@scripts/test.sh $(T)

test-short: ## the inner loop: go test -short, no race detector, no PostgreSQL
	go test -short $(GOTESTFLAGS) $(T)

fmt: ## rewrite the Go files in the house format
	@scripts/tools.sh golangci-lint
	.tools/golangci-lint fmt

fmt-diff: ## show what fmt would change; fails when there is something
	@scripts/fmt-diff.sh

lint: ## golangci-lint with .golangci.yml
	@scripts/tools.sh golangci-lint
	.tools/golangci-lint run $(T)

vuln: ## govulncheck against a pinned copy of the Go vulnerability database
	@scripts/vuln.sh $(T)

check: verify test ## verify + test (format, vet, lint, race tests, vulnerabilities, fuzz smoke)

fuzz: ## each fuzz target for FUZZTIME=60s; T=./capi/... narrows it
	@scripts/fuzz.sh $(FUZZTIME) $(T)

bench: ## benchmarks matching B=. , COUNT=1 times each, PostgreSQL included
	@scripts/with-postgres.sh go test -run '^$$' -bench '$(B)' -benchmem -count $(COUNT) -timeout 60m $(GOTESTFLAGS) $(T)
	@if [ -d e2e/bench ]; then scripts/with-postgres.sh go run ./e2e/bench; fi

soak: ## kill -9 under load, KILLS=50 times on each database
	@CAPILOOP_SOAK_KILLS=$(KILLS) CAPILOOP_SOAK_BURST=300 scripts/with-postgres.sh go test -count 1 -v -run 'Crash|Soak' -timeout 6h $(GOTESTFLAGS) ./e2e/...

cover: ## coverage of all packages by all tests, into bin/cover.html
	@mkdir -p bin
	@scripts/with-postgres.sh go test -coverpkg ./... -coverprofile bin/cover.out -timeout 15m $(GOTESTFLAGS) $(T)
	@go tool cover -html bin/cover.out -o bin/cover.html
	@go tool cover -func bin/cover.out | tail -n 1

tools: ## build the pinned tools into .tools/ where they are missing (minutes, once)
	@scripts/tools.sh

verify: ## fail when go.mod, go.sum or a generated file is out of date
	@scripts/verify.sh

docs: ## write the generated files anew (go generate)
	go generate ./...

clean: ## remove what was built and measured; keeps .tools
	rm -rf bin

hooks: ## let git run .githooks/pre-commit in this clone
	git config core.hooksPath .githooks
