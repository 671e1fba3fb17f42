queue {
  prefetch = 4

log {
  level = "info"
}
