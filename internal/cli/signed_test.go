package cli

import (
	"context"
	"os"
	"testing"

	"breakwater/internal/checkpoint"
)

// A file of checkpoints may have no end, or be a pipe into which nobody writes: whoever
// gives up waiting is not kept.
func TestSigned_a_file_without_an_end_can_be_left(t *testing.T) {
	_, public, err := checkpoint.Generate("t")
	if err != nil {
		t.Fatal(err)
	}
	keys, err := checkpoint.ReadKeys(public)
	if err != nil {
		t.Fatal(err)
	}
	silent, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	endless, err := os.Open("/dev/zero")
	if err != nil {
		t.Skip(err)
	}
	for name, f := range map[string]*os.File{"silent": silent, "endless": endless} {
		ctx, interrupt := context.WithCancel(t.Context())
		s := readSigned(ctx, name, f, keys)
		interrupt()
		if _, _, err := s.next(1); err == nil || err.Error() != "interrupted" {
			t.Errorf("%s: %v", name, err)
		}
		s.close()
	}
}
