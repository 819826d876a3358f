#!/usr/bin/env bash
# Runs every fuzz target for a while, one after the other. Usage: scripts/fuzz.sh TIME [packages]
# An input that fails is written to the package's testdata/fuzz: commit it with the repair.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
export GOTOOLCHAIN="${GOTOOLCHAIN:-go1.27.3}" CGO_ENABLED=0
time=${1:-10s}
[ $# = 0 ] || shift

out=$(mktemp)
trap 'rm -f "$out"' EXIT

# fuzz PACKAGE TARGET
fuzz() {
	go test -run '^$' -fuzz "^$2\$" -fuzztime "$time" "$1" >"$out" 2>&1 && return 0
	# A busy machine may end the time before a worker answers; that is no finding. Once more.
	if grep -q 'context deadline exceeded' "$out" && ! grep -q 'Failing input written' "$out"; then
		go test -run '^$' -fuzz "^$2\$" -fuzztime "$time" "$1" >"$out" 2>&1 && return 0
	fi
	return 1
}

# Only packages with a target are built. The names come from the compiled test, so that
# build tags and methods of the same name cannot deceive us.
# shellcheck disable=SC2016 # Go's template language, not the shell's
packages=$(go list -f '{{$p := .}}{{range .TestGoFiles}}{{$p.ImportPath}} {{$p.Dir}}/{{.}}{{"\n"}}{{end}}{{range .XTestGoFiles}}{{$p.ImportPath}} {{$p.Dir}}/{{.}}{{"\n"}}{{end}}' "${@:-./...}" |
	while read -r package file; do
		! grep -q '^func Fuzz' "$file" || printf '%s\n' "$package"
	done | sort -u)

passed=0 failed=0
for package in $packages; do
	listed=$(go test -list '^Fuzz' "$package") || die "$listed"
	for target in $(printf '%s\n' "$listed" | grep '^Fuzz'); do
		if fuzz "$package" "$target"; then
			passed=$((passed + 1))
			printf 'ok  \t%s %s\t%s\n' "$package" "$target" "$(grep -o 'execs: [0-9]*' "$out" | tail -n 1)"
		else
			failed=$((failed + 1))
			cat "$out"
			printf 'FAIL\t%s %s\n' "$package" "$target"
		fi
	done
done
echo "fuzz, $time each: $passed targets passed, $failed failed"
[ "$failed" = 0 ]
