data_dir = "/srv/a"
data_dir = "/srv/b"
queue {
  prefetch = 1
  prefetch = 2
}
queue {
  prefetch = 3
}
socket "control" {
}
socket "control" {
}
store "bbolt" {
}
store "bbolt" {
}
route "AUTO_RESOLVE" {
}
route "AUTO_RESOLVE" {
}
handler "exec" "post" {
  command = ["/bin/true"]
}
handler "http" "post" {
  url = "http://127.0.0.1/"
}
