#!/usr/bin/env bash
# Looks for known vulnerabilities that our code can reach. Usage: scripts/vuln.sh [packages]
# The database is the module golang.org/x/vulndb at the version pinned in scripts/tools.sh,
# so this needs the module proxy once and no other service, and gives the same answer twice.
set -euo pipefail
cd "$(dirname "$0")/.."
export GOTOOLCHAIN="${GOTOOLCHAIN:-go1.27.3}" CGO_ENABLED=0
scripts/tools.sh govulncheck indexdb

version=$(sed -n 's/^vulndb=//p' scripts/tools.sh)
day=$(printf '%s\n' "$version" | sed -E 's/.*-([0-9]{4})([0-9]{2})([0-9]{2})[0-9]{6}-.*/\1-\2-\3/')
db="$PWD/.tools/vulndb-$version"
if [ ! -f "$db/index/db.json" ]; then
	source=$(cd / && go mod download -json "golang.org/x/vulndb@$version" | sed -n 's/^.*"Dir": "\(.*\)".*$/\1/p')
	rm -rf "$PWD"/.tools/vulndb-*
	.tools/indexdb -vulns "$source/data/osv" -out "$db.new"
	mv "$db.new" "$db"
fi
echo "vulnerabilities known on $day, $(go env GOVERSION)"
.tools/govulncheck -db "file://$db" "${@:-./...}"
