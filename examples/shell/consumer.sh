#!/bin/sh
# Posts one exception to a journal, which is a folder with a file for each posting. It is
# run for each by
#
#     JOURNAL=journal breakwater consume --name sh-journal --env JOURNAL -- ./consumer.sh
#
# which attaches, extends leases, comes back after a restart, and answers what the exit
# status and the first line of output say. The object is on standard input.
set -eu
key=$(printf '%s' "$BREAKWATER_IDEMPOTENCY_KEY" | sha256sum | cut -c 1-64)
mkdir -p "$JOURNAL"

# The posting appears under the name that it is known by, whole and in one step: a
# second delivery, or one that died in between, finds it or not.
if [ ! -e "$JOURNAL/$key" ]; then
	cat >"$JOURNAL/$key.$$" || exit 75 # EX_TEMPFAIL: again later, in its place
	sync "$JOURNAL/$key.$$"
	mv "$JOURNAL/$key.$$" "$JOURNAL/$key"
fi
echo '{"outcome":"POSTED","by":"journal"}'
