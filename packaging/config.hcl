# /etc/breakwater/config.hcl, to start from: what a service of the system needs
# said. Everything else is at its default; the reference of every key is the
# config.hcl at the root of the repository. Check it with
#
#   breakwater --config /etc/breakwater/config.hcl config check

data_dir = "/var/lib/breakwater" # StateDirectory= of the unit
# run_dir is $RUNTIME_DIRECTORY, which the unit sets: /run/breakwater.
