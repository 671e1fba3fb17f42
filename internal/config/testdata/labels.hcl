queue "main" {
}
store "postgres" {
}
store {
}
socket "enqeue" {
}
socket "control" "again" {
}
route "REVIEW" {
  handler = "log"
}
handler "exec" {
}
handler "exce" "a" {
}
handler "log" "b" {
}
handler "exec" "Post Journal" {
}
handler "http" "consumers" {
}
handler "exec" "no-command" {
}
handler "http" "no-url" {
}
