data_dir = <<END
/srv/x
