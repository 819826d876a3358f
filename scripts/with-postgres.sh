#!/usr/bin/env bash
# Runs a command beside a throw-away PostgreSQL. Usage: scripts/with-postgres.sh CMD [args...]
#
# CMD finds the server in CAPILOOP_TEST_POSTGRES (a superuser's URL; tests create a database
# each). The cluster lives in a temporary folder and is stopped and deleted at the end,
# whatever CMD did. A CAPILOOP_TEST_POSTGRES that is already set is used as it is.
# PG_BIN=/path/to/bin chooses among several versions. fsync stays on: crash tests need it.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=scripts/lib.sh
. "$here/lib.sh"

if [ -n "${CAPILOOP_TEST_POSTGRES:-}" ]; then
	exec "$@"
fi

# find_bin prints the folder of the newest PostgreSQL >= 15, if there is one.
find_bin() {
	local dir major best="" best_major=14
	for dir in ${PG_BIN:+"$PG_BIN"} /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/local/pgsql/bin \
		/opt/homebrew/opt/postgresql@*/bin /usr/local/opt/postgresql@*/bin \
		/Applications/Postgres.app/Contents/Versions/latest/bin \
		"$(pg_config --bindir 2>/dev/null || true)"; do
		if [ ! -x "$dir/initdb" ] || [ ! -x "$dir/pg_ctl" ] || [ ! -x "$dir/postgres" ]; then
			continue
		fi
		major=$("$dir/postgres" --version | sed -E 's/[^0-9]*([0-9]+).*/\1/')
		if [ "$dir" = "${PG_BIN:-}" ]; then
			best=$dir
			break
		elif [ "$major" -gt "$best_major" ]; then
			best=$dir best_major=$major
		fi
	done
	[ -n "$best" ] && printf '%s\n' "$best"
}

bin=$(find_bin) || {
	install "PostgreSQL 15 or newer" postgresql "brew install postgresql@16"
	bin=$(find_bin) || die "apt-get installed a PostgreSQL older than 15; set PG_BIN to the bin folder of a newer one"
}

# initdb and postgres refuse to run as root: they run as an account without rights.
if [ "$(id -u)" = 0 ]; then
	user=postgres
	id "$user" >/dev/null 2>&1 || user=nobody
	if command -v runuser >/dev/null; then
		as_pg() { runuser -u "$user" -- "$@"; }
	elif command -v setpriv >/dev/null; then
		as_pg() { setpriv --reuid "$user" --regid "$(id -g "$user")" --clear-groups -- "$@"; }
	else
		as_pg() { sudo -n -u "$user" -- "$@"; }
	fi
else
	as_pg() { "$@"; }
fi

# /tmp and not TMPDIR: a socket's path must be shorter than some hundred bytes.
dir=$(mktemp -d /tmp/capiloop-pg.XXXXXX)
# shellcheck disable=SC2317 # called by the trap
stop() {
	if [ -f "$dir/data/postmaster.pid" ]; then
		(cd / && as_pg "$bin/pg_ctl" stop -D "$dir/data" -m immediate -s -t 30) || say "PostgreSQL in $dir did not stop"
	fi
	rm -rf "$dir"
}
trap stop EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

password=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
printf '%s\n' "$password" >"$dir/password"
[ "$(id -u)" != 0 ] || chown -R "$user" "$dir"
cd / # the unprivileged account may not be able to see the folder we came from
as_pg "$bin/initdb" -D "$dir/data" -U postgres -A scram-sha-256 --pwfile "$dir/password" \
	-E UTF8 --locale C >"$dir/initdb.log" 2>&1 || {
	cat "$dir/initdb.log" >&2
	die "initdb failed"
}

# A port that is taken makes the start fail; another one is tried.
started=""
for _ in 1 2 3 4 5; do
	port=$((20000 + RANDOM % 12000))
	if as_pg "$bin/pg_ctl" start -D "$dir/data" -s -w -t 60 -l "$dir/data/server.log" \
		-o "-p $port -k $dir -c listen_addresses=127.0.0.1 -c max_connections=200" >/dev/null 2>&1; then
		started=yes
		break
	fi
done
[ -n "$started" ] || {
	cat "$dir/data/server.log" >&2 || true
	die "PostgreSQL did not start"
}
export CAPILOOP_TEST_POSTGRES="postgres://postgres:$password@127.0.0.1:$port/postgres?sslmode=disable"
cd "$OLDPWD"

rc=0
"$@" || rc=$?
exit $rc
