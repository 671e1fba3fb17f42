data_dir = var.dir
run_dir  = upper("x")
queue {
  on_dead_letter = hold
  concurrency    = true ? 1 : 2
  prefetch       = (4)
  max_attempts   = - 5
}
log {
  level = "%{ if true }info%{ endif }"
}
handler "exec" "post" {
  command = ["/bin/post", path.x]
  env     = [for x in ["a"] : x]
}
