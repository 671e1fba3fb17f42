queue {
  concurrency          = "4"
  queue_maxsize        = 2.5
  prefetch             = 1e1
  lease_timeout_ms     = "30s"
  max_lease_timeout_ms = -1
  max_prefetch         = 0
  drain_timeout_s      = "10"
  max_attempts         = 100000000000000000000
  max_deliveries       = true
  retry_initial_ms     = null
  retry_max_ms         = 010
  consumer_lag_s       = [300]
  max_backlog          = { a = 1 }
  max_open_keys        = many
  max_dead_letters     = 10 * 1000
  max_store_bytes      = 1
  min_free_bytes       = "64MiB"
  max_line_bytes       = 1023
  max_intake_bytes     = "32 XB"
  receipt_timeout_ms   = "1h"
}
ledger {
  retention_h = 1000000000
  max_keys    = 1.5
}
audit {
  retention_h = "1500ms"
}
