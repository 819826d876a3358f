# Helpers for the scripts beside it; sourced, not run. Plain enough for bash 3.2 (macOS).
# shellcheck shell=bash

say() { printf '%s\n' "$*" >&2; }

die() {
	say "$*"
	exit 1
}

# as_root CMD... runs CMD as root, if that is possible without asking anyone.
as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	else
		sudo -n "$@"
	fi
}

can_apt() {
	[ -z "${CAPILOOP_NO_INSTALL:-}" ] && command -v apt-get >/dev/null &&
		{ [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }
}

# install WHAT-FOR APT-PACKAGES BREW-HINT installs the packages by apt where that needs
# no password, else says what to type and ends. CAPILOOP_NO_INSTALL=1 never installs.
install() {
	local what=$1 packages=$2 brew=$3
	if can_apt; then
		say "installing $packages by apt-get, for $what (CAPILOOP_NO_INSTALL=1 prevents this)"
		as_root apt-get update -qq >/dev/null || say "apt-get update failed; trying with the lists there are"
		# shellcheck disable=SC2086 # several packages
		as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $packages >/dev/null ||
			die "apt-get could not install $packages"
		return 0
	fi
	if [ "$(uname -s)" = Darwin ]; then
		die "$what is missing. Install it with: $brew"
	elif command -v apt-get >/dev/null; then
		die "$what is missing. Install it with: sudo apt-get install $packages"
	fi
	die "$what is missing. Install the equivalent of Debian's packages: $packages"
}

# go_files lists the Go files of the work tree, NUL between them, without tools and modules.
go_files() {
	if git rev-parse --git-dir >/dev/null 2>&1; then
		git ls-files -z --cached --others --exclude-standard -- '*.go' | while IFS= read -r -d '' f; do
			[ ! -f "$f" ] || printf '%s\0' "$f"
		done
	else
		find . \( -name node_modules -o -name '.?*' \) -prune -o -name '*.go' -type f -print0
	fi
}
