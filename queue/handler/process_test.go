package handler

import (
	"context"
	"os/exec"
	"testing"
	"time"
)

// zombie starts a command and waits until it has ended, but does not reap it.
func zombie(t *testing.T, script string) int {
	t.Helper()
	cmd := exec.Command("/bin/sh", "-c", script)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() })
	awaitExit(cmd.Process.Pid)
	return cmd.Process.Pid
}

// Who has ended has ended in time, even if nobody has noticed before the drain's time was
// up, or its own: an exit of 0 is an effect that counts.
func TestExec_who_has_ended_was_not_cut_off(t *testing.T) {
	cut, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name string
		ctx  context.Context
		e    Exec
	}{
		{"the drain's time is up", cut, Exec{timeout: time.Hour}},
		{"its own time is up", t.Context(), Exec{timeout: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			pid, exited, stopped := zombie(t, "exit 0"), make(chan struct{}), make(chan stop)
			go func() { stopped <- c.e.watch(c.ctx, nil, pid, exited) }()
			// It must wait for the word: to have returned is to have stopped it.
			select {
			case why := <-stopped:
				t.Errorf("stopped: %d", why)
			case exited <- struct{}{}:
				if why := <-stopped; why != 0 {
					t.Errorf("stopped: %d", why)
				}
			}
		})
	}
}

func TestHasSucceeded(t *testing.T) {
	for script, want := range map[string]bool{"exit 0": true, "exit 1": false, "exit 128": false, "kill -9 $$": false, "kill -TERM $$": false} {
		if got := hasSucceeded(zombie(t, script)); got != want {
			t.Errorf("%s: %v", script, got)
		}
	}
	if hasSucceeded(1 << 30) {
		t.Error("nobody has succeeded")
	}
}
