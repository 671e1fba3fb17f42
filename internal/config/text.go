package config

import (
	"net"
	"net/netip"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// The shapes of names. Handler names are part of keys, metrics and records, so
// they are kept to what needs no quoting anywhere.
var (
	handlerName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,62}$`)
	groupName   = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@\\-]*\$?$`)
	envName     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	hostName    = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?$`)
	expansion   = regexp.MustCompile(`\$[A-Za-z_{(]`)
)

// checkControl refuses what has no place in a name or a path, and what a
// terminal that shows it would act on. It does not repeat the text, which may be
// a URL with a password in it.
func checkControl(s string) *complaint {
	if strings.IndexFunc(s, unicode.IsControl) >= 0 {
		return complain("", "must not contain control characters or line ends")
	}
	return nil
}

// checkPath refuses what only a shell would understand: taken literally it would
// make a folder named "~" or "$HOME", and nobody would look for the data there.
func checkPath(s string) *complaint {
	if wrong := checkControl(s); wrong != nil {
		return wrong
	}
	switch {
	case s == "":
		return complain("leave the key out for its default", "must not be empty")
	case len(s) > maxPath:
		return complain("", "is %d bytes long, more than the %d that a path may have", len(s), maxPath)
	case expansion.MatchString(s), strings.HasPrefix(s, "~"):
		return complain("write the path itself; neither ~ nor variables of the environment are expanded", "must be a plain path, is %s", shown(s))
	}
	return nil
}

// checkGroup judges the form only. Whether the host has the group is found out
// where the socket is made, on the host that the file is for.
func checkGroup(s string) *complaint {
	if s == "" || len(s) <= maxGroup && groupName.MatchString(s) {
		return nil
	}
	return complain("", "must be the name or number of a group, is %s", shown(s))
}

func checkHandlerName(s string) *complaint {
	if handlerName.MatchString(s) {
		return nil
	}
	return complain("use a-z, 0-9, _ and -, at most "+strconv.Itoa(maxHandlerName)+" of them, the first a letter or digit",
		"must be a handler's name, is %s", shown(s))
}

// checkListen wants host:port with a numeric port: a named one would depend on
// the host's services file. Port 0 lets the kernel choose.
func checkListen(s string) *complaint {
	if s == "" {
		return nil
	}
	const example = `write it like "127.0.0.1:9377"`
	if len(s) > maxListen {
		return complain(example, "is too long: %d bytes", len(s))
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return complain(example, "must be host:port, is %s", shown(s))
	}
	if !isPort(port) {
		return complain(example, "must end in a port between 0 and 65535, is %s", shown(s))
	}
	if _, err := netip.ParseAddr(host); err != nil && host != "" && !hostName.MatchString(host) {
		return complain(example, "must start with an address or a host name, is %s", shown(s))
	}
	return nil
}

// isPort holds for 0 to 65535 in plain digits.
func isPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && strconv.FormatUint(n, 10) == s
}

// checkCommand wants an absolute program: a service has no useful working
// directory, and a search through PATH runs whatever is found first.
func checkCommand(position int, argument string) *complaint {
	if strings.ContainsRune(argument, 0) {
		return complain("", "item %d must not contain a NUL", position+1)
	}
	if len(argument) > maxArgument {
		return complain("", "item %d is %d bytes long, more than %d", position+1, len(argument), maxArgument)
	}
	if position > 0 {
		return nil
	}
	if wrong := checkControl(argument); wrong != nil {
		return wrong
	}
	if strings.ContainsAny(argument, " |;&<>") && !filepath.IsAbs(argument) {
		return complain(`no shell is run; write the arguments as a list, or ["/bin/sh", "-c", "…"]`, "must start with the absolute path of a program, starts with %s", shown(argument))
	}
	if !filepath.IsAbs(argument) {
		return complain(`write the whole path, like "/usr/local/bin/post"`, "must start with the absolute path of a program, starts with %s", shown(argument))
	}
	return nil
}

// checkEnvName wants the name of a variable that is passed on; a value would
// stand in a file that is printed and audited.
func checkEnvName(position int, name string) *complaint {
	if head, _, found := strings.Cut(name, "="); found {
		return complain("list the name alone and set the value in the service's own environment",
			"must list names of variables, item %d is %s with a value", position+1, shown(head))
	}
	if len(name) > maxEnvName || !envName.MatchString(name) {
		return complain("", "must list names of variables, item %d is %s", position+1, shown(name))
	}
	if strings.HasPrefix(name, "BREAKWATER_") {
		return complain("variables of that name are set for each delivery", "must not list %s", name)
	}
	if name == "NOTIFY_SOCKET" || strings.HasPrefix(name, "LISTEN_") || strings.HasPrefix(name, "WATCHDOG_") {
		return complain("what the service manager says to breakwater is not for its commands", "must not list %s", name)
	}
	return nil
}

// checkSecretName wants the name of the variable that holds a secret, or nothing.
// It does not repeat the text: it may be the secret itself, written in its place.
func checkSecretName(name string) *complaint {
	if name == "" || len(name) <= maxEnvName && envName.MatchString(name) {
		return nil
	}
	return complain("write its name alone and set the value in the service's own environment", "must be the name of a variable")
}
