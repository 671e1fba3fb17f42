log {
  level = "\u001b[2J\u202e"
}
metrics {
  listen = "\u202e:1"
}
socket "\u001b[2J" {
}
handler "exec" "\u202e" {
}
route "AUTO_RESOLVE" {
  handler = "\u202e"
}
