#!/bin/sh
# A close in miniature: starts breakwater on a temporary store, pipes a day's
# exceptions in, shows what became of them, kills the process in the middle of its
# work, starts it again, and proves from the file that nothing was lost or doubled.
# It needs nothing but the binary (BREAKWATER, default bin/breakwater) and leaves
# nothing behind.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
bw=${BREAKWATER:-bin/breakwater}
case $bw in /*) ;; *) bw=$root/$bw ;; esac

# The path of a Unix socket has at most 107 bytes, so the folder's must be short.
dir=$(mktemp -d "${TMPDIR:-/tmp}/breakwater-demo.XXXXXX")
pid=
stop() {
	[ -z "$pid" ] || kill -9 "$pid" 2>/dev/null || true
	rm -rf "$dir"
}
trap stop EXIT
trap 'exit 130' INT TERM

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }
[ -t 1 ] || say() { printf '\n%s\n' "$*"; }
run() {
	printf '$ breakwater'
	printf ' %s' "$@"
	printf '\n'
	"$bw" --config "$dir/config.hcl" "$@"
}
# What is suggested names the folder, which is removed at the end.
show() { run "$@" | sed '/^next: /d'; }
# wait_for CONDITION…: until it holds, at most a minute.
wait_for() {
	tries=0
	until "$@"; do
		tries=$((tries + 1))
		[ $tries -lt 600 ] || {
			echo "demo: gave up waiting for: $*" >&2
			tail -5 "$dir/log" >&2
			exit 1
		}
		sleep 0.1
	done
}
start() {
	"$bw" --config "$dir/config.hcl" serve 2>>"$dir/log" &
	pid=$!
	wait_for ready
}
ready() { "$bw" --config "$dir/config.hcl" --json status >/dev/null 2>&1; }
count() { "$bw" --config "$dir/config.hcl" --json status | sed -E 's/.*"'"$1"'":([0-9]+).*/\1/'; }
decided() { [ "$(count done)" -ge "$1" ]; }
idle() { [ "$(count ready)" = 0 ] && [ "$(count leased)" = 0 ] && [ "$(count held)" = 0 ]; }

# The reviewer of this demo is a command: it reads one exception on stdin and
# answers with one line on stdout.
cat >"$dir/review" <<'REVIEW'
#!/bin/sh
cat >/dev/null
echo '{"outcome":"APPROVED","by":"demo-reviewer"}'
REVIEW
chmod 700 "$dir/review"
cat >"$dir/config.hcl" <<CONFIG
data_dir = "$dir/var"
route "ROUTE_REVIEW" {
  handler = "review"
}
handler "exec" "review" {
  command = ["$dir/review"]
}
CONFIG

say "1. Start breakwater on an empty store"
start
echo "serving on $dir/var/run/enqueue.sock"

say "2. Pipe a close in: $(wc -l <testdata/exceptions/close.ndjson | tr -d ' ') lines, nine currencies, some sent twice, some broken"
status=0
run enqueue --receipts "$dir/receipts.ndjson" testdata/exceptions/close.ndjson || status=$?
echo "exit status $status (3: something was quarantined or in conflict)"
[ "$status" = 3 ]
echo "receipts by status:"
sed -E 's/.*"status":"([a-z]+)".*/\1/' "$dir/receipts.ndjson" | sort | uniq -c
echo "two that were not taken:"
grep -m2 '"status":"quarantined"' "$dir/receipts.ndjson"

say "3. Kill it with -9 in the middle of its work, and start it again"
wait_for decided 200
kill -9 "$pid"
wait "$pid" 2>/dev/null || true
start

say "4. Send the same close again: nothing is stored twice"
status=0
run enqueue testdata/exceptions/close.ndjson || status=$?
[ "$status" = 3 ]

wait_for idle
say "5. Everything is decided; what could not be processed waits as dead letters"
show status

say "6. The whole life of one exception"
run show 1

say "7. Drain"
kill -TERM "$pid"
status=0
wait "$pid" || status=$?
pid=
echo "exit status $status (0: a clean drain)"
[ "$status" = 0 ]

say "8. Prove it from the file alone, as an auditor would on another machine"
cp "$dir/var/breakwater.db" "$dir/copy.db"
run audit verify --file "$dir/copy.db"
