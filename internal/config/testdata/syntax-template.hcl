data_dir = "${"
queue {
}
