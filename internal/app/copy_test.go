package app

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"breakwater/internal/client"
	"breakwater/internal/control/api"
	"breakwater/queue"
	"breakwater/storage"
)

// madeCopy is a file with one open exception.
func madeCopy(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "copy.db")
	s, _, err := storage.Open(storage.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	if _, err := s.Start(t.Context(), queue.StartRequest{Now: now, Version: "1"}); err != nil {
		t.Fatal(err)
	}
	line := []byte(`{"idempotency_key":"k1","trace_id":"t","partition_key":"p","ledger_entity":"E","match_decision":"PARTIAL","variance_amount":"1"}`)
	m, err := queue.ParseLine(line)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Admit(t.Context(), queue.AdmitRequest{Now: now, Lines: []queue.Submission{
		{Message: m, LineBytes: int64(len(line)), LineHash: queue.LineHash(line)},
	}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestCopy: a copy is asked in the same way as a running breakwater, and nothing in
// it can be changed.
func TestCopy(t *testing.T) {
	c, err := OpenCopy(t.Context(), madeCopy(t), "1.2.3", nil)
	if err != nil {
		t.Fatal(err)
	}
	control := client.NewControlOver(c.Dial)
	ctx := t.Context()
	if st, err := control.Status(ctx); err != nil || st.Ready != 1 || st.Version != "1.2.3" {
		t.Errorf("%+v, %v", st, err)
	}
	if d, err := control.Exception(ctx, 1); err != nil || d.IdempotencyKey != "k1" || len(d.History) != 1 {
		t.Errorf("%+v, %v", d, err)
	}
	if v, err := control.Verify(ctx, api.VerifyAct{}); err != nil || !v.Sound {
		t.Errorf("%+v, %v", v, err)
	}
	for name, act := range map[string]func() error{
		"pause":  func() error { _, err := control.Pause(ctx, api.Act{}); return err },
		"resume": func() error { _, err := control.Resume(ctx, api.Act{}); return err },
		"replay": func() error { _, err := control.Replay(ctx, api.LettersAct{Seqs: []uint64{1}}); return err },
		"discard": func() error {
			_, err := control.Discard(ctx, api.LettersAct{Seqs: []uint64{1}, Reason: "r"})
			return err
		},
		"hold":    func() error { _, err := control.HoldKeys(ctx, api.KeysAct{Keys: []string{"p"}}); return err },
		"release": func() error { _, err := control.ReleaseKeys(ctx, api.KeysAct{Keys: []string{"p"}}); return err },
		"revoke":  func() error { _, err := control.Revoke(ctx, api.LeasesAct{Seqs: []uint64{1}}); return err },
		"drain":   func() error { _, err := control.Drain(ctx, api.Act{}); return err },
	} {
		if act() == nil {
			t.Errorf("%s was not refused", name)
		}
	}
	if st, err := control.Status(ctx); err != nil || st.Audit.Records != 2 || st.Paused != nil {
		t.Errorf("something was changed: %+v, %v", st, err)
	}
	control.Close()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Dial(ctx); err == nil {
		t.Error("a closed copy was connected to")
	}
}

func TestOpenCopy_refuses_what_is_no_store(t *testing.T) {
	_, err := OpenCopy(t.Context(), filepath.Join(t.TempDir(), "nothing.db"), "1", nil)
	var coded interface{ Code() string }
	if !errors.As(err, &coded) || coded.Code() != "STORE_ABSENT" {
		t.Errorf("%v", err)
	}
}

// TestCopy_that_nobody_waits_for: a file that was not closed in order is read in full,
// and whoever asked may have enough of it.
func TestCopy_that_nobody_waits_for(t *testing.T) {
	made, err := os.ReadFile(madeCopy(t))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "unclean.db") // it has no note of a clean stop
	if err := os.WriteFile(path, made, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c, err := OpenCopy(ctx, path, "1", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", c, err)
	}
}
