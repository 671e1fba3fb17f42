socket "enqueue" {
  mode = "0770"
}
socket "consume" {
  mode = "4660"
}
socket "control" {
  mode = "0440"
}
