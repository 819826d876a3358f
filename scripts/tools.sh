#!/usr/bin/env bash
# Builds the pinned developer tools into .tools/. Usage: scripts/tools.sh [name...]
# A tool is built again when its version or the Go toolchain's differs: a linter
# built by an older Go cannot read a newer standard library.
set -euo pipefail
cd "$(dirname "$0")/.."
export GOTOOLCHAIN="${GOTOOLCHAIN:-go1.27.3}" CGO_ENABLED=0
bin="$PWD/.tools"
# VULNDB is a database as well as a tool: raise it by hand, often. scripts/vuln.sh prints its date.
vulndb=v0.0.0-20261105234957-e22db6528018

# tool NAME VERSION MODULE [FOLDER IN THE MODULE]
tool() {
	local name=$1 version=$2 module=$3 folder=${4:-} have
	case "$wanted" in *" $name "* | "  ") ;; *) return 0 ;; esac
	have=$(go version -m "$bin/$name" 2>/dev/null | awk 'NR == 1 {go = $2} $1 == "mod" {print go, $3}') || true
	if [ "$have" = "$(go env GOVERSION) $version" ]; then
		return 0
	fi
	echo "building $name $version${5:+ ($5)}"
	GOBIN="$bin" go install "$module${folder:+/$folder}@$version" 2> >(grep -v '^go: downloading' >&2)
}

wanted=" $* "
mkdir -p "$bin"
tool gofumpt v0.12.0 mvdan.cc/gofumpt
tool gotestsum v1.13.0 gotest.tools/gotestsum
tool benchstat v0.0.0-20260908200009-22c9c6c9d4da golang.org/x/perf cmd/benchstat
tool govulncheck v1.9.0 golang.org/x/vuln cmd/govulncheck
tool indexdb "$vulndb" golang.org/x/vulndb cmd/indexdb
tool golangci-lint v2.15.0 github.com/golangci/golangci-lint/v2 cmd/golangci-lint "some minutes, once"
