#!/usr/bin/env bash
# Shows what gofumpt would change and fails when there is something.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/lib.sh
scripts/tools.sh gofumpt

if ! go_files | xargs -0 .tools/gofumpt -d -extra=group_params,clothe_returns; then
	die "the files above are not in the house format: make fmt"
fi
