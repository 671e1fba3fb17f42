#!/bin/sh
# Runs every fuzz target of the main module, one after the other (go test takes
# one at a time), for the given time each. Fails at the first crash, and when it
# finds no target: an empty list would look like a clean run.
set -eu
go=${GO:-go}
time=${1:-20s}

targets=$(grep -rn --include='*_test.go' --exclude-dir=bench -E '^func Fuzz[A-Za-z0-9_]*\(' . |
	sed -E 's|^(.*)/[^/]+:[0-9]+:func (Fuzz[A-Za-z0-9_]*)\(.*|\1 \2|' | sort -u)
[ -n "$targets" ] || {
	echo "fuzz: found no target" >&2
	exit 1
}
echo "$targets" | while read -r dir name; do
	echo "fuzz: $dir $name for $time"
	"$go" test -run '^$' -fuzz "^$name\$" -fuzztime "$time" "$dir"
done
