package storetest

import (
	"errors"
	"time"

	"breakwater/queue"
)

// Of Archived: what may be let go of because a copy has it (P10).
var archivedPromises = []promise{
	{"nothing_is_archived_at_first", func(w *world) {
		w.given("a1@A")
		equal(w, "mark", w.archived(), queue.ArchiveMark{})
	}},
	{"moves_the_mark_and_says_what_holds_the_trail", func(w *world) {
		w.given("a1@A", "b1@B")
		i := w.archive()
		w.given("c1@C") // meanwhile
		mark := w.mark()
		at := w.now()
		w.ok(w.store.Archived(w.ctx, w.operator("month end"), i), "archived")
		w.since(mark, "ARCHIVED")
		r := w.records(queue.TrailQuery{Event: queue.EventArchived})[0]
		equal(w, "who and why", [3]any{r.By, r.Reason, *r.Peer}, [3]any{"olga", "month end", queue.Peer{PID: 5}})
		equal(w, "detail", string(r.Detail), `{"path":"/archive/one.db","block":2,"head":"`+i.Head.Hash.String()+
			`","records":3,"sha256":"`+i.SHA256.String()+`","bytes":4096}`)
		want := queue.ArchiveMark{Head: queue.Head{Block: 2}, N: 3, At: wall(at)}
		equal(w, "mark", w.archived(), want)
		w.reopen()
		equal(w, "mark after a restart", w.archived(), want)
		w.crash()
		equal(w, "mark after a crash", w.archived(), want)
	}},
	{"never_goes_back", func(w *world) {
		old := w.archive()
		w.given("a1@A")
		w.ok(w.store.Archived(w.ctx, w.operator(""), w.archive()), "archived")
		want := w.archived()
		w.pass(time.Hour)
		mark := w.mark()
		w.ok(w.store.Archived(w.ctx, w.operator(""), old), "an older one, that took longer")
		w.since(mark, "ARCHIVED")
		equal(w, "mark", w.archived(), want)
	}},
	{"refuses_what_is_not_this_trail", func(w *world) {
		w.given("a1@A")
		w.given("b1@B")
		good := w.archive()
		mark := w.mark()
		for name, change := range map[string]func(*queue.ArchiveInfo){
			"nothing":                func(i *queue.ArchiveInfo) { *i = queue.ArchiveInfo{} },
			"another hash":           func(i *queue.ArchiveInfo) { i.Head.Hash[0]++ },
			"another last record":    func(i *queue.ArchiveInfo) { i.Records-- },
			"a block to come":        func(i *queue.ArchiveInfo) { i.Head.Block++ },
			"another block's hash":   func(i *queue.ArchiveInfo) { i.Head.Block-- },
			"a record of its middle": func(i *queue.ArchiveInfo) { i.Head.Block--; i.Records -= 2 },
		} {
			i := good
			change(&i)
			if err := w.store.Archived(w.ctx, w.operator(""), i); !errors.Is(err, queue.ErrNotFound) {
				w.Errorf("%s: %v", name, err)
			}
		}
		w.since(mark)
		equal(w, "mark", w.archived(), queue.ArchiveMark{})
	}},
}

// archive describes an archive of the store as it is now.
func (w *world) archive() queue.ArchiveInfo {
	st := w.status()
	return queue.ArchiveInfo{Path: "/archive/one.db", Head: st.Head, Records: st.Records, SHA256: queue.LineHash([]byte("copy")), Bytes: 4096}
}

// archived is the mark as the status has it, without the hash.
func (w *world) archived() queue.ArchiveMark {
	st := w.status()
	return queue.ArchiveMark{Head: queue.Head{Block: st.ArchivedBlock}, N: st.ArchivedN, At: st.ArchivedAt}
}

// stepArchive archives the trail as it is, or as it was at an earlier archive, or
// claims to have what no trail has.
func (m *machine) stepArchive(c *choices) {
	m.Helper()
	st, err := m.stores[0].Status(m.ctx, m.now())
	if err != nil {
		m.Fatalf("status: %v", err)
	}
	i := queue.ArchiveInfo{Path: "/archive", Head: st.Head, Records: st.Records, Bytes: 1}
	m.copies = append(m.copies, i)
	switch c.below(6) {
	case 1:
		i = of(c, m.copies...)
	case 2:
		i.Head.Block += uint64(c.below(3)) - 1
	case 3:
		i.Records += uint64(c.below(3)) - 1
	}
	m.Logf("  %s, record %d", i.Head, i.Records)
	a := m.action()
	all(m, "archived", func(s queue.Store) (refused bool, err error) {
		err = s.Archived(m.ctx, a, i)
		if errors.Is(err, queue.ErrNotFound) {
			return true, nil
		}
		return false, err
	})
}
