handler "exec" "relative" {
  command = ["post"]
}
handler "exec" "shell" {
  command = ["post --fast | tee log"]
}
handler "exec" "none" {
  command = []
}
handler "exec" "text" {
  command = "/usr/local/bin/post"
}
handler "exec" "items" {
  command = ["/usr/local/bin/post", 1]
}
handler "exec" "env" {
  command = ["/usr/local/bin/post"]
  env     = ["LANG", "TOKEN=verysecret"]
}
handler "exec" "env-name" {
  command = ["/usr/local/bin/post"]
  env     = ["1x"]
}
handler "exec" "env-ours" {
  command    = ["/usr/local/bin/post"]
  env        = ["BREAKWATER_SEQ"]
  timeout_ms = 0
}
handler "exec" "wrong-key" {
  command = ["/usr/local/bin/post"]
  url     = "http://127.0.0.1/"
  timeout = 5
}
handler "exec" "env-manager" {
  command = ["/usr/local/bin/post"]
  env     = ["NOTIFY_SOCKET", "LISTEN_FDS", "WATCHDOG_USEC"]
}
