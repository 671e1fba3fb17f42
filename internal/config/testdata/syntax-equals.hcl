data_dir "/srv/x"
queue {
  prefetch: 3
}
