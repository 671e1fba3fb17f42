# prefetch has a problem of its own, so that it is not held against queue_maxsize
queue {
  queue_maxsize = 16
  prefetch      = "8"
}
