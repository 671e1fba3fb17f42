queue {
  queue_maxsize        = 16
  concurrency          = 17
  lease_timeout_ms     = 3600001
  retry_initial_ms     = 2000
  retry_max_ms         = 1000
  max_attempts         = 21
  max_line_bytes       = 4096
  max_intake_bytes     = 2048
}
checkpoint {
  output = "heads.ndjson"
}
route "AUTO_RESOLVE" {
  handler = "post-jurnal"
}
route "ROUTE_REVIEW" {
  handler = "review"
}
handler "exec" "post-journal" {
  command = ["/usr/local/bin/post"]
}
