#!/usr/bin/env bash
# The one command that passes every test. Usage: scripts/test.sh [packages]
#
# Without packages (or with ./...): what a commit must pass, cheap things first. With packages:
# vet and the race tests of these. What the tests need is installed where that is possible
# without asking, else the message says what to type.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
export GOTOOLCHAIN="${GOTOOLCHAIN:-go1.27.3}" CGO_ENABLED=0
[ $# -gt 0 ] || set -- ./...

recap=""
# step NAME CMD... runs one step, notes how long it took, and ends everything when it fails.
step() {
	local name=$1 began=$SECONDS
	shift
	say "== $name"
	if ! "$@"; then
		printf '%s' "$recap"
		die "FAIL: $name"
	fi
	recap+=$(printf '== %-16s ok %4ds' "$name" $((SECONDS - began)))$'\n'
}

needs() {
	command -v go >/dev/null || die "Go is missing: https://go.dev/dl (1.21 or newer; it fetches $GOTOOLCHAIN itself)"
	command -v git >/dev/null || install git git "xcode-select --install"
	command -v "$(go env CC)" >/dev/null || install "a C compiler, for the race detector" "gcc libc6-dev" "xcode-select --install"
	if ! browser >/dev/null; then
		install "Chromium, for the browser tests (CHROME_PATH names another one)" chromium "brew install --cask chromium"
	fi
	command -v npm >/dev/null || install "Node.js with npm, for Meta's Node SDK and the tag's types" "nodejs npm" "brew install node"
	node_modules e2e/node
	node_modules tag
}

browser() {
	[ -n "${CHROME_PATH:-}" ] && command -v "$CHROME_PATH" && return
	command -v chromium || command -v chromium-browser || command -v google-chrome ||
		ls -d "/Applications/Google Chrome.app" /Applications/Chromium.app 2>/dev/null
}

# node_modules FOLDER installs what its lock file says, unless it is there.
node_modules() (
	cd "$1"
	[ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --no-audit --no-fund --ignore-scripts
)

lint() { scripts/tools.sh golangci-lint && .tools/golangci-lint run && tag/node_modules/.bin/tsc -p tag; }

json=$(mktemp)
trap 'rm -f "$json"' EXIT

# The events of go test's JSON that end a test; a text printed by a test begins otherwise.
count() { grep -c "^{\"Time\":\"[^\"]*\",\"Action\":\"$1\",\"Package\":\"[^\"]*\",\"Test\":" "$json" || true; }

race_tests() {
	scripts/tools.sh gotestsum || return 1
	local rc=0
	# shellcheck disable=SC2086 # GOTESTFLAGS holds several flags
	CGO_ENABLED=1 scripts/with-postgres.sh .tools/gotestsum --format standard-quiet --jsonfile "$json" -- \
		-race -shuffle=on -timeout 25m ${GOTESTFLAGS:-} "$@" || rc=$?
	result="$(count pass) passed, $(count fail) failed, $(count skip) skipped"
	if [ $rc != 0 ]; then
		[ "$(count fail)" != 0 ] || result+="; a package did not build, or its tests were cut short"
		say "$result"
	fi
	return $rc
}

step needs needs
step vet go vet "$@"
if [ "$*" = ./... ]; then
	step format scripts/fmt-diff.sh
	step lint lint
	step "race tests" race_tests "$@"
	step vulnerabilities scripts/vuln.sh
	step "fuzz smoke" scripts/fuzz.sh 10s
else
	step "race tests" race_tests "$@"
fi
printf '%s%s\n' "$recap" "$result"
