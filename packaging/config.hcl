# /etc/breakwater/config.hcl, to start from: what a service of the system needs
# said. Everything else is at its default; the reference of every key is the
# config.hcl at the root of the repository. Check it with
#
#   breakwater --config /etc/breakwater/config.hcl config check

data_dir = "/var/lib/breakwater" # StateDirectory= of the unit
# run_dir is $RUNTIME_DIRECTORY, which the unit sets: /run/breakwater.

# Whoever works on the exceptions with a variance has to be named: this version has
# no consume.sock, so with the default, "consumers", what goes to ROUTE_REVIEW is
# stored and waits. A handler in its place, with the path of your own program:
#
# route "ROUTE_REVIEW" {
#   handler = "post-journal"
# }
#
# handler "exec" "post-journal" {
#   command    = ["/usr/local/bin/post-journal"]
#   timeout_ms = 20000
# }
