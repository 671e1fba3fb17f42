package handler

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"breakwater/queue"
)

const (
	// defaultPath is what a daemon without PATH gives to its commands.
	defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	// maxEnvValue bounds a value that comes from a message. The gates let in no
	// more than 256 bytes; a variable that the kernel refuses (128 KiB) would make
	// a message look like a handler that cannot be had.
	maxEnvValue = 4 << 10
	// ours begins the name of every variable that a delivery brings.
	ours = "BREAKWATER_"
)

// passedEnv returns PATH and the named variables with their values, for those that
// are set.
func passedEnv(names []string, lookup func(string) (string, bool)) ([]string, error) {
	if lookup == nil {
		lookup = os.LookupEnv
	}
	path, ok := lookup("PATH")
	if !ok || path == "" {
		path = defaultPath
	}
	env := []string{"PATH=" + path}
	for _, name := range names {
		if err := mayPass(name); err != nil {
			return nil, err
		}
		if value, ok := lookup(name); ok && name != "PATH" && strings.IndexByte(value, 0) < 0 {
			env = append(env, name+"="+value)
		}
	}
	return env, nil
}

// mayPass refuses what is no name, what a delivery sets, and the service manager's
// words to the daemon: a child that has NOTIFY_SOCKET or LISTEN_FDS could speak in
// the daemon's name, or take its sockets for its own.
func mayPass(name string) error {
	switch {
	case name == "" || strings.ContainsAny(name, "=\x00"):
		return fmt.Errorf("%s is no name of a variable", queue.Quote(name, maxShown))
	case name == "NOTIFY_SOCKET" || strings.HasPrefix(name, "LISTEN_") || strings.HasPrefix(name, "WATCHDOG_"):
		return fmt.Errorf("%s is between the service manager and the daemon", name)
	case strings.HasPrefix(name, ours):
		return fmt.Errorf("%s is set for each delivery", name)
	}
	return nil
}

// deliveryEnv returns passed and the variables of one delivery.
func deliveryEnv(passed []string, d *queue.Delivery) []string {
	env := append(make([]string, 0, len(passed)+6), passed...)
	for _, v := range [...]struct{ name, value string }{
		{"SEQ", strconv.FormatUint(d.Message.Seq, 10)},
		{"IDEMPOTENCY_KEY", d.Message.IdempotencyKey},
		{"TRACE_ID", d.Message.TraceID},
		{"ROUTE", string(d.Route)},
		{"DELIVERY", strconv.Itoa(d.Number)},
		{"REDELIVERED", strconv.FormatBool(d.Redelivered)},
	} {
		if len(v.value) <= maxEnvValue && strings.IndexByte(v.value, 0) < 0 {
			env = append(env, ours+v.name+"="+v.value)
		}
	}
	return env
}
