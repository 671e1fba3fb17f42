#!/bin/sh
# Sends a file of exceptions, one JSON object per line, until all of it is stored.
#
#     producer.sh FILE [SOCKET]
#
# Sending it again is harmless: what is stored is answered "duplicate". nc is OpenBSD's;
# -N closes its sending side at the end, which asks for the line "end".
set -u
file=$1 socket=${2:-/run/breakwater/enqueue.sock}
receipts=$(mktemp) || exit 1
trap 'rm -f "$receipts"' EXIT

until nc -N -U "$socket" <"$file" >"$receipts" && tail -n 1 "$receipts" | grep -q '^{"event":"end",.*"rejected":0,'; do
	echo "producer: not all of it is stored: trying again" >&2
	sleep 1
done
# What was refused by a gate, or is in conflict: a person looks at it.
grep -E '"status":"(quarantined|conflict)"' "$receipts"
tail -n 1 "$receipts" >&2
