#!/usr/bin/env bash
# Fails when go.mod or go.sum is not tidy, or when `go generate` would change a file.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh

go mod tidy -diff || die "go.mod or go.sum is out of date: go mod tidy"

if go_files | xargs -0 grep -l '^//go:generate ' >/dev/null 2>&1; then
	state() {
		git diff
		# shellcheck disable=SC2016 # the inner shell expands it
		git ls-files --others --exclude-standard -z | xargs -0 sh -c 'for f; do cksum "$f"; done' sh
	}
	before=$(state)
	go generate ./...
	if [ "$before" != "$(state)" ]; then
		git status --short
		die "a generated file was out of date; make docs has now written it: look at it and commit it"
	fi
fi
