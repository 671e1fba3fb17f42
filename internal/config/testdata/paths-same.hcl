store "bbolt" {
  path = "run/../run/control.sock"
}
audit {
  stream = "/srv/breakwater/run/control.sock.head"
}
checkpoint {
  key = "head.key"
}
socket "enqueue" {
  path = "one.sock"
}
socket "consume" {
  path = "./one.sock"
}
socket "control" {
  path = "run/control.sock"
}
