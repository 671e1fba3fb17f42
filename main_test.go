package main

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// update has cmp write into the scripts what it finds, to be read and committed.
var update = flag.Bool("update", false, "rewrite what the scripts compare with")

// TestMain lets the scripts run this program as a process of its own, with real
// signals, pipes and exit statuses.
func TestMain(m *testing.M) {
	// A process with the race detector waits for a second at its end unless told not
	// to; there are hundreds here.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){"breakwater": main})
}

// TestScripts runs the command line's specification: what is typed, what is
// printed where, and with which status it ends. See script_test.go for the commands
// that testscript does not have.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Deadline:            time.Now().Add(3 * time.Minute), // a command that hangs ends with its stacks, not with the whole test
		UpdateScripts:       *update,
		Setup:               setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits":    exits,
			"start":    start,
			"serve":    serve,
			"signal":   signalTo,
			"ended":    ended,
			"await":    await,
			"until":    until,
			"lines":    lines,
			"feed":     feed,
			"receipts": receipts,
			"pipehead": pipeHead,
			"shape":    shape,
		},
	})
}
