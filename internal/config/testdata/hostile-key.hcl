queue {
  ‮prefetch = 1
}
