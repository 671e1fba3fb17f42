# /etc/breakwater/config.hcl, to start from: what a service of the system needs
# said. Everything else is at its default; the reference of every key is the
# config.hcl at the root of the repository. Check it with
#
#   breakwater --config /etc/breakwater/config.hcl config check

data_dir = "/var/lib/breakwater" # StateDirectory= of the unit
run_dir  = "/run/breakwater"     # RuntimeDirectory=. Said here too, since only the service has $RUNTIME_DIRECTORY,
                                 # and "breakwater status" in your shell must find the same sockets

# Exceptions with a variance go to ROUTE_REVIEW, whose handler is "consumers" by default:
# they wait until somebody attaches to /run/breakwater/consume.sock ("breakwater consume",
# or a program of your own). A command in their place, with the path of your program:
#
# route "ROUTE_REVIEW" {
#   handler = "post-journal"
# }
#
# handler "exec" "post-journal" {
#   command    = ["/usr/local/bin/post-journal"]
#   timeout_ms = 20000
# }
