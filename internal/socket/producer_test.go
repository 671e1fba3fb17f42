package socket

import (
	"testing"

	"breakwater/queue"
)

// TestSubmission_hashes_what_is_kept: the trail's hash of a line must be that of the
// stored bytes, or a verification calls a sound store damaged.
func TestSubmission_hashes_what_is_kept(t *testing.T) {
	for _, text := range []string{message("k1"), message("k1") + "\r", message("k1") + " \t\r", "{\r", "\xff\r"} {
		s := submission(new(queue.Parser), []byte(text))
		if s.LineHash != queue.LineHash(s.Message.Line) || s.LineBytes != int64(len(s.Message.Line)) {
			t.Errorf("%q: %d bytes are recorded, %d are kept", text, s.LineBytes, len(s.Message.Line))
		}
	}
}
