prefetch  = 4
data_dri  = "/srv/x"
queue     = {}
whatever  = 1
queue {
  lease_timeout   = 30
  lease_timeout_s = 30
  worker          = 8
  max_keys        = 5
  data_dir        = "/srv/y"
  log {
    level = "info"
  }
}
ques {
}
level {
}
metric {
  listen = ""
}
lager "x" {
}
