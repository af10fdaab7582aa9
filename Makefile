# The one front door: `make` alone lists what there is.
SHELL := /bin/bash
.DEFAULT_GOAL := help

# go test work: every package of the four modules in go.work.
PACKAGES ?= work
# -p 2: packages share one broker and one database server with two cores.
TEST_FLAGS ?= -count=1 -p 2 -timeout 15m
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
FUZZ_TIME ?= 20s
GOLANGCI_LINT := github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
PARTS := go run ./integration/parts

.PHONY: help test nightly parts images lint build bench fuzz fuzz-providers dev demo secrets generate docs release-contract clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

test: ## run all tests on real Kafka and PostgreSQL, whichever way this machine can run them
	@.ci/prepare
	$(PARTS) -- go test $(TEST_FLAGS) $(PACKAGES)

nightly: ## the long runs: every set of seven facts, ten minutes of competing processors, each parser fuzzed for 5 minutes, each provider's verifier for 10
	go test -count=1 -timeout 60m sluice/pkg/order -long
	@.ci/prepare
	$(PARTS) -- go test -count=1 -timeout 30m sluice/services/processor -run InACircle -long
	$(PARTS) -- go test -count=1 -timeout 30m sluice/pkg/postgres -run TwoConsumers -rapid.checks=5000
	$(MAKE) fuzz FUZZ_TIME=5m
	$(MAKE) fuzz-providers FUZZ_TIME=10m

parts: ## start Kafka and PostgreSQL, print how to reach them, and stay until Ctrl-C
	@.ci/prepare
	@$(PARTS)

images: ## build or pull the images that tests use (and Apache Kafka under .cache)
	.ci/images/build

lint: ## check the code (golangci-lint, all modules)
	go run $(GOLANGCI_LINT) run ./schemas/... ./pkg/... ./services/... ./integration/...

build: ## build bin/sluice, a static program
	CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o bin/sluice ./services/sluice

bench: ## measure throughput and latency on real parts (BENCH=-quick, -write, "-only ingress")
	@.ci/prepare
	$(PARTS) -- go run ./integration/bench $(BENCH)

fuzz: ## fuzz each parser for FUZZ_TIME (20s)
	@for package in $$(go list -f '{{.Dir}}' work); do \
	  for target in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' $$package/*_test.go 2>/dev/null | awk '{print $$2}'); do \
	    (cd $$package && go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZ_TIME) .) || exit 1; \
	  done; \
	done

fuzz-providers: ## fuzz each provider's verifier and reader, one after the other, for FUZZ_TIME each
	@for provider in $$(go run ./services/sluice providers --format json | sed -n 's/^    "name": "\(.*\)",/\1/p'); do \
	  for target in FuzzVerify FuzzRead; do \
	    echo "$$provider: $$target"; \
	    go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZ_TIME) sluice/pkg/webhook -args -provider $$provider || exit 1; \
	  done; \
	done

dev: build ## bring everything up on this machine, send a day of webhooks, stay up
	bin/sluice dev --demo

demo: build ## the same, and end: exit 0 only if the books add up
	bin/sluice dev --demo --exit

secrets: ## make .env for docker compose: random passwords, and signing secrets to replace
	@if [ -e .env ]; then echo ".env is there already; remove it to make another"; else umask 077; \
	  random() { head -c 24 /dev/urandom | base64; }; \
	  { echo "POSTGRES_PASSWORD=$$(random | tr '+/' '-_')"; echo "SLUICE_MERCHANT_TOKEN=$$(random)"; \
	    echo "# Replace these by what your providers show:"; \
	    echo "STRIPE_SIGNING_SECRET=whsec_$$(random)"; echo "SHOP_SIGNING_SECRET=whsec_$$(random)"; } >.env; \
	  echo "made .env"; fi

generate: ## write again what is generated (tables in docs)
	go generate work
	go run ./pkg/order/statemachine >.generated && mv .generated docs/state-machine.md
	go run ./services/sluice providers --format markdown >.generated && mv .generated docs/providers.md

docs: ## render the contract as pages, into .cache/docs
	go run ./services/sluice docs --out .cache/docs

release-contract: ## keep the present contract as released; the version is that of its documents
	@version=$$(sed -n 's/^  version: //p' schemas/asyncapi.yaml); to=schemas/released/$$version; \
	  if [ -e $$to ]; then echo "$$version is released already; set another info.version in both documents"; exit 1; fi; \
	  mkdir -p $$to && cp schemas/*.json schemas/*.yaml $$to && cd $$to && LC_ALL=C sha256sum *.* >SHA256SUMS && echo "released $$to"

clean: ## remove what was built here (not Docker's images)
	rm -rf bin .cache .sluice
