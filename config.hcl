# breakwater's configuration: every key, at its default, explained.
#
# breakwater looks for its file here, in this order: --config FILE, $BREAKWATER_CONFIG,
# ./config.hcl, /etc/breakwater/config.hcl. Without one it runs with exactly these values.
#
#   breakwater config check     every problem at once, with its line
#   breakwater config show      what is in force
#
# A running breakwater reads it again on SIGHUP and "breakwater reload": all of it comes into
# force, or nothing. A change is recorded in the trail.
#
# Everything may be left out. A line that begins with # shows a key whose default depends on
# another one, or an example. Numbers are whole, without quotes; the unit is the end of the
# key's name: _ms milliseconds, _s seconds, _h hours, _bytes bytes. Relative paths count from
# this file's folder. Nothing is computed: no variables, no functions, no ${…}.
#
# "Restart" marks what only a restart changes: a reload that finds it changed is refused and
# says so.

# The folder of the durable state, mode 0700. Of this folder, as of every other that is named
# here, breakwater makes the last level and nothing above it: a typo in a path is an error,
# and not a new, empty store. On a disk of its own put it two levels below the mount point: then
# it is an error, too, if that is not mounted. Restart.
data_dir = "./var"

# The folder of the sockets, mode 0750 with their group. Default: $RUNTIME_DIRECTORY (systemd
# sets it), else run under data_dir. A socket's whole path may have at most 107 bytes. Restart.
# run_dir = "./var/run"

# Where the backlog, the leases, the ledger and the audit trail are kept: one bbolt file, 0600.
# Never copy it while the daemon runs: breakwater archive does that, or stop it first. Restart.
store "bbolt" {
  # Default: breakwater.db in data_dir. A small witness of its newest state lies beside it (.head).
  # path = "./var/breakwater.db"
}

queue {
  # In-process workers, for the routes with an exec, http or log handler: 1 to 1024.
  concurrency = 8

  # Exceptions in all worker channels together: from concurrency to 65536. This, not the
  # backlog, is what bounds memory.
  queue_maxsize = 64

  # Exceptions claimed from the store at once: 1 to queue_maxsize.
  prefetch = 32

  # How long a claimed exception belongs to its worker or consumer before it is given to
  # another: 10 ms to 7 days. Workers renew theirs while a handler runs, so this needs not
  # cover the slowest handler. A consumer that asks for none has lease_timeout_ms;
  # max_lease_timeout_ms is the longest that it may ask for.
  lease_timeout_ms     = 30000
  max_lease_timeout_ms = 3600000

  # The largest prefetch that a consumer may ask for, which is how many exceptions it may have
  # at once: 1 to 65536.
  max_prefetch = 1024

  # How long running handlers may go on after SIGTERM before they are cut off: 1 s to a day. A
  # command is asked to end (SIGTERM) two seconds before, but at most a tenth of it.
  # Give the unit a TimeoutStopSec that is some seconds longer.
  drain_timeout_s = 30

  # Failures after which an exception becomes a dead letter (ATTEMPTS_EXHAUSTED): 1 to 1000; and
  # deliveries (DELIVERIES_EXHAUSTED), which also count crashes and expired leases: from
  # max_attempts to 10000.
  max_attempts   = 10
  max_deliveries = 20

  # The delay after the first failure, doubled with each further one up to retry_max_ms, half
  # of it random: 1 ms to a day. The exception keeps its place meanwhile.
  retry_initial_ms = 1000
  retry_max_ms     = 300000

  # What happens to a partition key whose exception became a dead letter: "hold" (the key waits
  # until the letter is replayed or discarded) or "skip" (the key goes on, the gap is recorded).
  on_dead_letter = "hold"

  # A route's oldest claimable exception being older than this is CONSUMER_LAG, the signal to
  # scale: 1 s to 30 days.
  consumer_lag_s = 300

  # When the store counts as full (QUEUE_SATURATED): open exceptions (ready, scheduled, leased
  # and held together, up to 1000000000); partition keys with open exceptions (about 80 bytes of
  # memory each, up to 16777216; see below); dead letters (up to 100000000); the size of the file (from
  # 1 MiB to 16 TiB; 0: no limit); free space left on its disk (0: the disk may be filled).
  # A key of which everything is scheduled (not_before) counts once it falls due, and cannot be
  # refused then: keys can be more than max_open_keys for a while, but not more than max_backlog.
  max_backlog      = 10000000
  max_open_keys    = 1000000
  max_dead_letters = 1000000
  max_store_bytes  = 0
  min_free_bytes   = 67108864

  # What a producer meets then: "block" (its lines are not read until there is room) or
  # "reject" (its lines are answered "rejected", with a time to come back).
  on_saturated = "block"

  # The longest line, its end not counted: 1 KiB to 16 MiB. A longer one is quarantined with its
  # first 4096 bytes, its length and its hash.
  max_line_bytes = 262144

  # Lines that are read but not yet stored, of all connections together: from max_line_bytes to
  # 1 GiB. Of a line that has not ended each connection may hold max_line_bytes besides: at most
  # max_connections of the enqueue socket times that, 64 MiB at the defaults. It is not counted
  # here, since who stops within a line could keep all others waiting for ever.
  max_intake_bytes = 33554432

  # How long a producer may leave its receipts unread before they are dropped (its lines are
  # still stored): 1 ms to an hour.
  receipt_timeout_ms = 5000
}

# The memory of what has been settled: it makes a retry or a replay from upstream harmless.
ledger {
  # How long a settled key is remembered, from its settlement: 1 h to 100 years. Afterwards the
  # same line is accepted as new, and run again: longer than anybody upstream may repeat it. Keys
  # that are not settled are always remembered. Counted in hours of service: a clock that is set
  # forward shortens it by a day at most, and by an eighth.
  retention_h = 8760

  # Remembered keys: 1 to 1000000000. Beyond it the store counts as full.
  max_keys = 50000000
}

# The hash-chained trail in the file.
audit {
  # How long records stay in the file: 1 h to 100 years, in hours of service as in "ledger". Of
  # what is open, or a dead letter, the first records stay for as long as it is.
  retention_h = 8760

  # Remove a record only when an archive holds it ("breakwater archive"): without archives the
  # trail is kept for ever, and the file grows. false: only its age counts.
  require_archive = true

  # Where every record also goes, after its commit, one JSON line each: "" (nowhere), "stdout"
  # or a file's path. A FIFO or a device is refused: it keeps nothing. The file may be renamed
  # away, which needs no signal. It is waited for by nobody: what it does not take is left out,
  # whole records of it, logged and counted (breakwater_stream_skipped_total). Restart.
  stream = ""
}

# Signed heads of the chain, kept outside the file: they prove later that nobody shortened or
# rewrote it ("audit verify --checkpoint"). One at the start, one at each interval if anything
# was recorded, one for each archive, and one at the end of a drain. Both key and output, or
# neither. Restart.
checkpoint {
  # The file with the private key that signs, which "audit keygen" makes: only its owner may be
  # able to read it. "" for no checkpoints.
  key = ""

  # A file's path, "stdout" or "syslog" (both: a line of JSON each). A file is opened for each
  # one, so a rotation needs no signal; a link, a FIFO or a device is refused. Whoever can write
  # the store should not be able to write here: carry it off the host, or let the journal or
  # syslog do it.
  output = ""

  # 1 s to a day.
  interval_s = 60
}

metrics {
  # A TCP address for Prometheus, like "127.0.0.1:9377"; read-only, without a password. "" for
  # none: GET /metrics on the control socket is always there. Restart.
  listen = ""
}

# The three doors; their permissions are the access control. The mode is octal, in quotes, and
# never opens a socket to everyone: put the clients into the group (a name or a number; default:
# the process's own). Restart. max_connections is how many may be open at once, 1 to 10000: a
# reload that makes it less closes none, and lets nobody in until fewer are open.
socket "enqueue" {
  # path = "./var/run/enqueue.sock"
  # group = "matching"
  mode            = "0660"
  max_connections = 256
}

socket "consume" {
  # path = "./var/run/consume.sock"
  # group = "review"
  mode            = "0660"
  max_connections = 64
}

socket "control" {
  # path = "./var/run/control.sock"
  # group = "operators"
  mode            = "0600"
  max_connections = 32
}

# Which handler takes the exceptions of a route: "log" (settles them as AUTO_RESOLVED; the audit
# record is the effect), "consumers" (whoever is attached to the consume socket; while nobody is,
# the route's exceptions wait in the backlog, in order), or the name of a handler block below.
route "AUTO_RESOLVE" {
  handler = "log"
}

route "ROUTE_REVIEW" {
  handler = "consumers"
}

# A command per exception, without a shell; the first item is an absolute path. The command line
# is visible to every user of the host: no secrets in it. timeout_ms (1 ms to a day) is 20000
# where it is left out; two seconds before (at most a tenth of it) the command gets SIGTERM, and
# what exits by itself then has answered as at any time. env lists the names of variables that are passed on, besides PATH.
#
# handler "exec" "post-journal" {
#   command    = ["/usr/local/bin/post"]
#   timeout_ms = 20000
#   env        = ["LANG"]
# }

# An HTTP POST per exception: http, https, or http+unix with the path of a socket that ends in
# .sock. User, password and query of the url are masked wherever the configuration is shown.
# timeout_ms is the limit of one try. The value of the Authorization header ("Bearer …") comes
# from a file that only its owner can read, and that is read for each request, so that a new
# secret needs no reload; or from a variable of the environment, read at the start; or from a
# user and password in the url. At most one of the three.
#
# handler "http" "review-api" {
#   url                = "http+unix:///run/review.sock/v1/exceptions"
#   timeout_ms         = 20000
#   authorization_file = ""
#   authorization_env  = ""
# }

# What the daemon says on stderr. If what reads it stops reading, the work goes on without: then
# entries are left out, and an entry at their place says how many.
log {
  # "trace", "debug", "info", "warn" or "error".
  level = "info"

  # "json" or "text". Restart.
  format = "json"
}
