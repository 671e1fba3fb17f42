package handler

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"strings"
	"syscall"
)

const (
	// maxSecret bounds the value of the Authorization header.
	maxSecret = 8 << 10
	// minHidden is the shortest text that is taken out of what the other end says: a
	// shorter one stands in many words by chance.
	minHidden = 8
	// redacted stands for a secret.
	redacted = "redacted"
)

// secret is what a hook authorises itself with, and what else must never be seen:
// the URL's password and query.
type secret struct {
	file  string // read for each try
	value string // the header's value, where there is no file
	parts []string
}

// newSecret finds out where the authorization comes from: one place at most.
func newSecret(o *HTTPOptions, t target) (secret, error) {
	given := 0
	for _, one := range [...]bool{t.user != nil, o.AuthorizationFile != "", o.AuthorizationEnv != ""} {
		if one {
			given++
		}
	}
	if given > 1 {
		return secret{}, errors.New("a user in the option URL, AuthorizationFile and AuthorizationEnv exclude each other")
	}
	s := secret{file: o.AuthorizationFile, parts: queryParts(t.url.RawQuery)}
	switch {
	case t.user != nil:
		password, _ := t.user.Password()
		s.value = "Basic " + base64.StdEncoding.EncodeToString([]byte(t.user.Username()+":"+password))
		s.parts = append(s.parts, t.user.String(), password, url.QueryEscape(password))
	case o.AuthorizationEnv != "":
		lookup := o.LookupEnv
		if lookup == nil {
			lookup = os.LookupEnv
		}
		value, ok := lookup(o.AuthorizationEnv)
		if !ok {
			return secret{}, fmt.Errorf("the variable %s, which has its authorization, is not set", o.AuthorizationEnv)
		}
		if wrong := checkHeaderValue(value); wrong != "" {
			return secret{}, fmt.Errorf("the variable %s, which has its authorization, %s", o.AuthorizationEnv, wrong)
		}
		s.value = value
	}
	return s, nil
}

// queryParts are the query of a URL and its values, as written and as meant.
func queryParts(raw string) []string {
	parts := []string{raw}
	values, _ := url.ParseQuery(raw) // what can be read of it
	for _, list := range values {
		for _, v := range list {
			parts = append(parts, v, url.QueryEscape(v))
		}
	}
	return parts
}

// authorization returns the header's value for one try; "": none. The error has
// the file's path and never what is in it.
func (s *secret) authorization() (string, error) {
	if s.file == "" {
		return s.value, nil
	}
	value, err := readSecret(s.file)
	if err != nil {
		return "", fmt.Errorf("read the authorization: %w", err)
	}
	return value, nil
}

// hidden returns a function that takes the secrets of a try out of a text, and the
// beginning of one at its end: texts are cut.
func (s *secret) hidden(authorization string) func(string) string {
	_, credentials, _ := strings.Cut(authorization, " ")
	var parts, pairs []string
	for _, part := range append([]string{authorization, credentials}, s.parts...) {
		if len(part) >= minHidden {
			parts, pairs = append(parts, part), append(pairs, part, redacted)
		}
	}
	whole := strings.NewReplacer(pairs...)
	return func(text string) string {
		text = whole.Replace(text)
		longest := 0
		for _, part := range parts {
			for n := min(len(part)-1, len(text)); n >= minHidden && n > longest; n-- {
				if strings.HasSuffix(text, part[:n]) {
					longest = n
				}
			}
		}
		if longest > 0 {
			text = text[:len(text)-longest] + redacted
		}
		return text
	}
}

// readSecret reads a file that only its owner can read. One of root's that the
// group may read is taken too by a process that is not root: that is how a service
// manager hands a credential over.
func readSecret(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0) // a FIFO must not block
	if err != nil {
		return "", err
	}
	defer f.Close() // read only: nothing can be lost
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a file", path)
	}
	if !private(info) {
		return "", fmt.Errorf("%s can be read by others than its owner; chmod 600", path)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+2)) // and a line end
	if err != nil {
		return "", err
	}
	value := strings.TrimRight(string(text), "\r\n")
	if wrong := checkHeaderValue(value); wrong != "" {
		return "", fmt.Errorf("%s %s", path, wrong)
	}
	return value, nil
}

func private(info fs.FileInfo) bool {
	others := info.Mode().Perm() & 0o077
	if others == 0 {
		return true
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && owner.Uid == 0 && os.Geteuid() != 0 && others == 0o040
}

// checkHeaderValue says what keeps a text from being a header's value, or "". It
// never repeats it.
func checkHeaderValue(value string) string {
	switch {
	case strings.TrimSpace(value) == "":
		return "is empty"
	case len(value) > maxSecret:
		return fmt.Sprintf("is longer than %d bytes", maxSecret)
	case strings.TrimSpace(value) != value:
		return "has spaces around the value"
	}
	for i := range len(value) {
		if value[i] < ' ' || value[i] > '~' {
			return "has characters that a header cannot carry"
		}
	}
	return ""
}
