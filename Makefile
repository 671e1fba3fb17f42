# Everything a person does with this repository, by name. `make help` lists it.
# Needed: Go and make. A C compiler adds the race detector, nothing else.

SHELL := /bin/sh
.DEFAULT_GOAL := build

GO      ?= go
BIN     ?= bin
PREFIX  ?= /usr/local
DESTDIR ?=

# A source tree without its history (an unpacked archive) still builds.
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS  = -s -w -X main.version=$(VERSION)
BUILD    = CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o $(BIN)/breakwater .

FUZZTIME  ?= 20s
BENCH     ?= .
BENCHTIME ?= 1s
COUNT     ?= 1
PKG       ?= ./...

# The race detector is C code: it needs cgo and a compiler that works. Where they
# are missing the tests still run, but say loudly what they did not look for.
RACE = $$(sh scripts/race.sh "$(GO)")

# Tools are pinned in a module of their own, so that what they import never
# enters the product's go.mod.
TOOL = $(GO) tool -modfile=tools/go.mod

.PHONY: build
build: ## the static binary, in bin/
	$(BUILD)

$(BIN)/breakwater:
	$(BUILD)

# It installs what was built ("make" first), and builds only where nothing was: whoever
# installs is root, and root may have no Go in its PATH.
.PHONY: install
install: | $(BIN)/breakwater ## the binary, the systemd units, alerts and a dashboard, below $(DESTDIR)$(PREFIX)
	install -D -m 0755 $(BIN)/breakwater $(DESTDIR)$(PREFIX)/bin/breakwater
	install -D -m 0644 -t $(DESTDIR)$(PREFIX)/lib/systemd/system packaging/*.service packaging/*.socket
	sed -i 's|^ExecStart=/usr/local/|ExecStart=$(PREFIX)/|' $(DESTDIR)$(PREFIX)/lib/systemd/system/breakwater.service
	install -D -m 0644 packaging/breakwater.sysusers $(DESTDIR)$(PREFIX)/lib/sysusers.d/breakwater.conf
	install -D -m 0644 packaging/breakwater.tmpfiles $(DESTDIR)$(PREFIX)/lib/tmpfiles.d/breakwater.conf
	install -D -m 0644 -t $(DESTDIR)$(PREFIX)/share/breakwater packaging/alerts.yml packaging/grafana/breakwater.json

.PHONY: demo
demo: build ## a close in miniature: enqueue, consume, a crash, an audit
	BREAKWATER=$(BIN)/breakwater sh scripts/demo.sh

.PHONY: test
test: ## every test, under the race detector where that is possible
	$(GO) test $(RACE) -timeout 15m $(PKG)

.PHONY: fuzz
fuzz: ## every fuzz target for $(FUZZTIME) each
	GO="$(GO)" sh scripts/fuzz.sh $(FUZZTIME)

.PHONY: bench
bench: ## Go benchmarks (BENCH=regexp COUNT=n; compare two runs with: make benchstat A=old B=new)
	$(GO) test -run '^$$' -bench '$(BENCH)' -benchmem -benchtime $(BENCHTIME) -count $(COUNT) $(PKG)

.PHONY: benchstat
benchstat: ## compare two files of benchmark output: A=old.txt B=new.txt
	$(TOOL) benchstat $(A) $(B)

.PHONY: lint
lint: ## gofmt, go mod tidy, go vet, staticcheck
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then \
		echo "gofmt: these files are not formatted (gofmt -w .):" >&2; echo "$$unformatted" >&2; exit 1; fi
	$(GO) mod tidy -diff
	$(GO) vet ./...
	$(TOOL) staticcheck ./...

.PHONY: vuln
vuln: ## known vulnerabilities in what we link (needs the network)
	$(TOOL) govulncheck ./...

.PHONY: check
check: lint test ## what must pass before a commit

.PHONY: clean
clean: ## what building left behind
	rm -rf $(BIN) dist
	find . -name '*.test' -type f -delete

.PHONY: help
help:
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-10s %s\n", $$1, $$2 }' Makefile
