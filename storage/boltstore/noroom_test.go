package boltstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"breakwater/partition"
	"breakwater/queue"
)

// TestNoRoom_a_full_disk_refuses_new_lines_and_loses_nothing fills a real, small
// file system. What was answered is kept, settlements go on as soon as there is a
// little room, and the tables that were rebuilt after the refusal are those that the
// next start builds.
func TestNoRoom_a_full_disk_refuses_new_lines_and_loses_nothing(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "16m")
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, now := context.Background(), time.Now()
	s := openAt(t, filepath.Join(dir, "breakwater.db"), now)

	accepted, leased := 0, claimSome(t, s, now, 0)
	for batch := 0; ; batch++ {
		lines := make([]queue.Submission, 150)
		for i := range lines {
			lines[i] = longSubmission(t, batch*len(lines)+i, 150, 4<<10)
		}
		_, err := s.Admit(ctx, queue.AdmitRequest{Now: now, Lines: lines})
		if errors.Is(err, queue.ErrNoRoom) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		accepted += len(lines)
		if batch == 2 {
			leased = claimSome(t, s, now, 100)
		}
	}
	if accepted == 0 || len(leased) == 0 {
		t.Fatalf("%d accepted, %d leased before the disk was full", accepted, len(leased))
	}
	same(t, s, now, fmt.Sprintf("after the refusal, %d accepted", accepted), int64(accepted))

	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	res, err := s.Settle(ctx, queue.SettleRequest{Now: now, Settlements: leased})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range res {
		if r.Code != "" {
			t.Fatalf("a lease did not outlive the refusal: %+v", r)
		}
	}
	before, err := s.Exceptions(ctx, 0, MaxPage)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, filepath.Join(dir, "breakwater.db"), now)
	after, err := s.Exceptions(ctx, 0, MaxPage)
	if err != nil || !reflect.DeepEqual(before, after) {
		t.Fatalf("the next start sees other messages (%v)", err)
	}
	same(t, s, now, "after a restart", int64(accepted))
	v, err := s.Verify(ctx, queue.VerifyOptions{})
	if err != nil || len(v.Findings) > 0 {
		t.Fatal(err, v.Findings)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestNoRoom_a_renewed_lease_outlives_the_refusal_of_its_answer has a worker answer
// for a lease that it has renewed, in the same group as lines that do not fit.
func TestNoRoom_a_renewed_lease_outlives_the_refusal_of_its_answer(t *testing.T) {
	t.Parallel()
	dir := smallDisk(t, "12m")
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 4<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, now := context.Background(), time.Now()
	s := groupStore{openAt(t, filepath.Join(dir, "breakwater.db"), now)}
	sent := 0
	admit := func() error {
		lines := make([]queue.Submission, 150)
		for i := range lines {
			sent++
			lines[i] = longSubmission(t, sent, 50, 4<<10)
		}
		_, err := s.Admit(ctx, queue.AdmitRequest{Now: now, Lines: lines})
		return err
	}
	if err := admit(); err != nil {
		t.Fatal(err)
	}
	worker := queue.Owner{Kind: queue.Worker, Name: "w"}
	acks := claimFor(t, s.Store, worker, now, 1, time.Minute)
	_, err := s.Extend(ctx, queue.ExtendRequest{Now: now, Owner: worker, Tokens: []queue.Token{acks[0].Token}, Lease: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		err = admit()
	}
	if !errors.Is(err, queue.ErrNoRoom) {
		t.Fatal(err)
	}

	later := now.Add(30 * time.Minute)
	acks[0].At = later
	var res []queue.SettleResult
	settle := func() (err error) {
		res, err = s.Settle(ctx, queue.SettleRequest{Now: later, Settlements: acks})
		return err
	}
	for range maxAhead {
		_ = s.Probe(ctx) // lets the next group have both; there may be no room for it
	}
	release := s.hold(t)
	settled, admitted := s.begin(t, settle), s.begin(t, admit)
	close(release)
	if err := <-admitted; !errors.Is(err, queue.ErrNoRoom) {
		t.Fatalf("the lines: %v", err)
	}
	if err := <-settled; err != nil { // no room for it alone either
		if err := errors.Join(os.Remove(ballast), settle()); err != nil {
			t.Fatal(err)
		}
	}
	if res[0].Code != "" {
		t.Errorf("the answer: %+v", res[0])
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// same checks that all accepted messages are somewhere.
func same(t *testing.T, s *Store, now time.Time, when string, accepted int64) {
	t.Helper()
	st, err := s.Status(context.Background(), now)
	if err != nil {
		t.Fatal(err)
	}
	if st.Backlog()+st.Done != accepted || int64(st.LastSeq) != accepted {
		t.Fatalf("%s: %+v", when, st)
	}
}

func openAt(t testing.TB, path string, now time.Time) *Store {
	t.Helper()
	s, err := openLight(t, Open, Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start(context.Background(), queue.StartRequest{Now: now, Policy: queue.Policy{MaxAttempts: 3, MaxDeliveries: 6}}); err != nil {
		t.Fatal(err)
	}
	return s
}

// claimSome leases up to n messages to a consumer and returns their acks.
func claimSome(t *testing.T, s *Store, now time.Time, n int) (acks []queue.Settlement) {
	t.Helper()
	if n == 0 {
		return nil
	}
	return claimFor(t, s, queue.Owner{Kind: queue.Consumer, Name: "ui"}, now, n, time.Hour)
}

func claimFor(t *testing.T, s *Store, owner queue.Owner, now time.Time, n int, lease time.Duration) (acks []queue.Settlement) {
	t.Helper()
	for _, d := range claimAll(t, s, owner, now, n, lease).Deliveries[0] {
		acks = append(acks, queue.Settlement{Token: d.Token, Owner: owner, Verb: queue.Ack, At: now, Outcome: "APPROVED"})
	}
	return acks
}

func claimAll(t *testing.T, s *Store, owner queue.Owner, now time.Time, n int, lease time.Duration) queue.ClaimResult {
	t.Helper()
	res, err := s.Claim(context.Background(), queue.ClaimRequest{Now: now, Wants: []queue.Want{{
		Owner: owner, Slots: partition.AllSlots(), Routes: queue.RoutesOf(queue.Routes[:]...), Max: n, PerKey: 1, Lease: lease,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// smallDisk mounts a tmpfs of its own; a machine that does not let us skips the
// test and says so.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("SKIPPED: this machine mounts no small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}
