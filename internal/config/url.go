package config

import (
	"net/netip"
	"net/url"
	"strings"
)

// redacted stands for a secret wherever a configuration is shown or stored. It
// needs no escaping in a URL.
const redacted = "redacted"

// checkURL wants a URL that the http handler can post to. Its complaints never
// repeat the URL, which may hold a password.
func checkURL(s string) *complaint {
	const example = `write it like "https://host/path" or "http+unix:///run/review.sock/path"`
	if len(s) > maxURL {
		return complain("", "is %d bytes long, more than %d", len(s), maxURL)
	}
	u, err := url.Parse(s)
	if err != nil {
		// the parser's own words repeat the URL, password and all
		return complain(example, "must be a URL")
	}
	if strings.Contains(s, "#") {
		return complain("leave it out", "must not have a fragment (#…)")
	}
	switch u.Scheme {
	case "http", "https":
		return checkURLHost(u, example)
	case "http+unix":
		return checkUnixURL(u, example)
	case "":
		return complain(example, "must begin with http://, https:// or http+unix://")
	}
	return complain(example, "must begin with http://, https:// or http+unix://, begins with %s", shown(u.Scheme+":"))
}

// checkURLHost is for http and https.
func checkURLHost(u *url.URL, example string) *complaint {
	if u.Hostname() == "" || u.Opaque != "" {
		return complain(example, "must name a host")
	}
	if ip, err := netip.ParseAddr(u.Hostname()); err == nil && (ip.Unmap().IsLinkLocalUnicast() || ip.Unmap().IsMulticast()) {
		return complain("nothing is posted there: it is where clouds keep their credentials", "must not have a link-local or multicast address")
	}
	if port := u.Port(); strings.HasSuffix(u.Host, ":") || port != "" && (!isPort(port) || port == "0") {
		return complain(example, "must have a port between 1 and 65535, has %s", shown(port))
	}
	return nil
}

// checkUnixURL is for http+unix, whose path holds the socket's path and then the
// path of the request. The socket's length is judged here: the kernel's own
// answer, at the first exception, would be "invalid argument".
func checkUnixURL(u *url.URL, example string) *complaint {
	if u.Host != "" || u.User != nil {
		return complain("an absolute path has three slashes after the colon: http+unix:///run/…", "must not name a host")
	}
	socket, ok := unixSocket(u)
	if !ok {
		return complain(example, "must contain the path of a socket whose name ends in .sock")
	}
	if len(socket) > MaxSocketPath {
		return complain("put the socket into a shorter folder", "has a socket path of %d bytes, the limit is %d", len(socket), MaxSocketPath)
	}
	return nil
}

// unixSocket is the part of an http+unix path up to the first element that ends
// in ".sock". It is cut where the URL has a slash, not where an escape stands for one, as
// the handler cuts it.
func unixSocket(u *url.URL) (string, bool) {
	escaped := u.EscapedPath()
	for end, c := range escaped + "/" {
		if c != '/' {
			continue
		}
		if socket, err := url.PathUnescape(escaped[:end]); err == nil && strings.HasSuffix(socket, ".sock") {
			return socket, true
		}
	}
	return "", false
}

// masked hides the parts of a URL that may hold a secret: user and password,
// and the query. What has neither is returned as it was written.
func masked(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.User == nil && u.RawQuery == "" {
		return s
	}
	if u.User != nil {
		u.User = url.User(redacted)
	}
	if u.RawQuery != "" {
		u.RawQuery = redacted
	}
	return u.String()
}
