handler "http" "scheme" {
  url = "ftp://example.org/x"
}
handler "http" "none" {
  url = "example.org/x"
}
handler "http" "empty" {
  url = ""
}
handler "http" "file" {
  url = "file:///etc/passwd"
}
handler "http" "fragment" {
  url = "http://user:verysecret@example.org/x#y"
}
handler "http" "no-host" {
  url = "http:///x"
}
handler "http" "port" {
  url = "http://example.org:99999/x"
}
handler "http" "broken" {
  url = "http://user:verysecret@exa mple.org/"
}
handler "http" "control" {
  url = "http://user:verysecret@example.org/\n"
}
handler "http" "unix-host" {
  url = "http+unix://run/review.sock/v1"
}
handler "http" "unix-no-sock" {
  url = "http+unix:///run/review/v1"
}
handler "http" "unix-long" {
  url = "http+unix:///run/0123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789/r.sock/v1"
}
handler "http" "link-local" {
  url = "http://user:verysecret@169.254.169.254/latest"
}
handler "http" "link-local-6" {
  url = "https://[fe80::1]/x"
}
handler "http" "secret-for-a-name" {
  url               = "https://example.org/x"
  authorization_env = "Bearer verysecret"
}
handler "http" "file-and-variable" {
  url                = "https://example.org/x"
  authorization_env  = "REVIEW"
  authorization_file = "token"
}
handler "http" "user-and-file" {
  url                = "https://user:verysecret@example.org/x"
  authorization_file = "token"
}
handler "http" "secret-for-a-file" {
  url                = "https://example.org/x"
  authorization_file = "Bearer verysecret"
}
handler "http" "escaped-socket" {
  url = "http+unix:///run/review%2Fx.sock/y"
}
handler "http" "escaped-slash" {
  url = "http+unix:///run/review.sock%2Fy"
}
