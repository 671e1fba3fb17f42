#!/bin/sh
# Prints "-race" when this machine can run the race detector, nothing otherwise,
# and then says so on stderr: a silent fallback would pass for the full check.
set -u
go=${1:-go}

missing() {
	echo "==========================================================================" >&2
	echo "WARNING: the tests run WITHOUT the race detector: $1" >&2
	echo "==========================================================================" >&2
	exit 0
}

[ "$("$go" env CGO_ENABLED)" = 1 ] || missing "cgo is off (CGO_ENABLED=1 and a C compiler turn it on)"
cc=$("$go" env CC)
tmp=$(mktemp -d) || missing "no temporary folder"
trap 'rm -rf "$tmp"' EXIT
echo 'int main(void) { return 0; }' >"$tmp/probe.c"
# $cc may carry flags ("ccache gcc"), so it is split on purpose.
# shellcheck disable=SC2086
$cc -o "$tmp/probe" "$tmp/probe.c" 2>/dev/null || missing "no working C compiler ($cc)"
case "$("$go" env GOOS)/$("$go" env GOARCH)" in
linux/amd64 | linux/arm64 | linux/ppc64le | linux/s390x | linux/riscv64 | linux/loong64 | darwin/* | freebsd/amd64 | windows/amd64) ;;
*) missing "not supported on this architecture" ;;
esac
echo -race
