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
