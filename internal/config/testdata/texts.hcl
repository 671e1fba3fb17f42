data_dir = ""
run_dir  = "$HOME/run"
store "bbolt" {
  path = "~/breakwater.db"
}
queue {
  on_dead_letter = "Hold"
  on_saturated   = block
}
audit {
  require_archive = "true"
  stream          = "a\nb"
}
checkpoint {
  output = true
}
metrics {
  listen = "9377"
}
socket "enqueue" {
  mode  = 0660
  group = "a b"
  path  = "${env.HOME}/x.sock"
}
socket "consume" {
  mode = "0666"
}
socket "control" {
  mode            = "rw-rw----"
  max_connections = 1.0
}
log {
  level  = "verbose"
  format = null
}
