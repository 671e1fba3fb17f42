package archive

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/storage/boltstore"
)

// large is an open file of three pieces and a byte.
func large(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := f.Truncate(3*removePiece + 1); err != nil {
		t.Fatal(err)
	}
	return f
}

func sizeOf(t *testing.T, f *os.File) int64 {
	t.Helper()
	st, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	return st.Size()
}

func TestGiveBack_a_piece_at_a_time(t *testing.T) {
	f := large(t, filepath.Join(t.TempDir(), "f"))
	if err := os.Remove(f.Name()); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ended := make(chan struct{})
		go func() { giveBack(f, nil); close(ended) }()
		for _, want := range []int64{2*removePiece + 1, removePiece + 1, 1, 0} {
			synctest.Wait()
			if got := sizeOf(t, f); got != want {
				t.Errorf("%d bytes are left, want %d", got, want)
			}
			<-time.After(removePause)
		}
		<-ended
	})
}

func TestGiveBack_ends_when_there_is_no_time(t *testing.T) {
	f := large(t, filepath.Join(t.TempDir(), "f"))
	if err := os.Remove(f.Name()); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		hurry := make(chan struct{})
		ended := make(chan struct{})
		go func() { giveBack(f, hurry); close(ended) }()
		synctest.Wait()
		close(hurry)
		<-ended
		if got := sizeOf(t, f); got != 2*removePiece+1 {
			t.Errorf("%d bytes are left", got)
		}
	})
}

func TestGiveBack_leaves_alone_what_has_another_name(t *testing.T) {
	f := large(t, filepath.Join(t.TempDir(), "f"))
	if err := os.Link(f.Name(), f.Name()+".kept"); err != nil {
		t.Skip(err)
	}
	if err := os.Remove(f.Name()); err != nil {
		t.Fatal(err)
	}
	giveBack(f, nil)
	if got := sizeOf(t, f); got != 3*removePiece+1 {
		t.Errorf("somebody's file has %d bytes left", got)
	}
}

// breaking is a store whose copy fails when it has become large. It keeps the file open,
// as a test that wants to see what becomes of it must.
type breaking struct {
	*boltstore.Store
	kept *os.File
	err  error
}

func (b *breaking) Snapshot(_ context.Context, to *os.File, _ func(boltstore.SnapshotStep) error) (i boltstore.SnapshotInfo, err error) {
	if b.kept, err = os.OpenFile(to.Name(), os.O_RDWR, 0); err == nil {
		err = b.kept.Truncate(3 * removePiece)
	}
	return i, errors.Join(b.err, err)
}

// TestMake_removes_what_failed_in_pieces: its name goes at once, what it takes of the disk
// does not.
func TestMake_removes_what_failed_in_pieces(t *testing.T) {
	r := newRig(t)
	b := &breaking{Store: r.store, err: errors.New("the disk is tired")}
	r.maker.o.Store = b
	_, err := r.make(t.Context(), r.dest("one.db"))
	r.refused(err, Failed, "tired")
	defer b.kept.Close()
	if got := sizeOf(t, b.kept); got != 0 {
		t.Errorf("%d bytes go in one piece", got)
	}
	// Where the process ends, all of it does.
	ending := make(chan struct{})
	close(ending)
	r.maker.o.Ending = ending
	_, err = r.make(t.Context(), r.dest("one.db"))
	r.refused(err, Failed, "tired")
	defer b.kept.Close()
	if got := sizeOf(t, b.kept); got != 2*removePiece {
		t.Errorf("%d bytes are left for the end of the process", got)
	}
}

// TestMake_removes_what_a_kill_left_in_pieces, too.
func TestMake_removes_what_a_kill_left_in_pieces(t *testing.T) {
	r := newRig(t)
	left := large(t, r.dest(".one.db.0123456789abcdef.archiving"))
	if _, err := r.make(t.Context(), r.dest("one.db")); err != nil {
		t.Fatal(err)
	}
	if got := sizeOf(t, left); got != 0 {
		t.Errorf("%d bytes go in one piece", got)
	}
}
