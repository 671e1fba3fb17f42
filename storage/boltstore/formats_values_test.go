package boltstore

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
	"breakwater/storage/boltstore/ledger"
)

// values is a look at every value of a file, each by itself: what kinds of things there
// are, in words, and which of them today's code would not write as they stand there.
type values struct {
	kinds map[string]bool
	wrong []string
}

// valuesOf looks at a file that nobody has open.
func valuesOf(t testing.TB, path string) *values {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	v := &values{kinds: map[string]bool{}}
	err = db.View(func(tx *bolt.Tx) error {
		return errors.Join(v.ledger(tx), tx.ForEach(func(name []byte, b *bolt.Bucket) error {
			v.kind("bucket %s", name)
			return b.ForEach(func(key, value []byte) error {
				if again, err := v.again(string(name), key, value); err != nil {
					return fmt.Errorf("bucket %s, key %x: %w", name, key, err)
				} else if !bytes.Equal(again, value) {
					v.wrong = append(v.wrong, fmt.Sprintf("bucket %s, key %x:\n  in the file %x\n  written now %x", name, key, value, again))
				}
				return nil
			})
		}))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{".head", ".lock"} {
		if text, err := os.ReadFile(path + suffix); err == nil {
			v.kind("%s: %s", suffix, strings.Join(strings.Fields(numbers.ReplaceAllString(string(text), "N")), " "))
		}
	}
	return v
}

// numbers are what differs in the text of a witness or a lock file.
var numbers = regexp.MustCompile(`\b[0-9a-f]+\b`)

func (v *values) kind(format string, args ...any) { v.kinds[fmt.Sprintf(format, args...)] = true }

// sorted lists the kinds.
func (v *values) sorted() []string { return slices.Sorted(maps.Keys(v.kinds)) }

// again decodes a value and encodes it anew.
func (v *values) again(bucket string, key, value []byte) ([]byte, error) {
	switch bucket {
	case "meta":
		v.kind("meta %s", key)
		return v.meta(string(key), value)
	case "backlog":
		v.kind("place of %d bytes", len(key))
		return v.record(value)
	case "scheduled":
		v.kind("scheduled, key of %d bytes", len(key))
		return v.record(value)
	case "timed":
		v.kind("timed %c, %d bytes", value[0], len(value))
	case "parked":
		v.kind("parked, key of %d bytes", len(key))
	case "held":
		return throughJSON(value, new(keyHold))
	case "flight":
		return v.flight(binary.BigEndian.Uint64(key), value)
	case "dead":
		return v.letter(binary.BigEndian.Uint64(key), value)
	case "aliases":
		v.kind("alias version %d", value[0])
		again := slices.Clone(value) // its fields are copied out one by one: only the checksum is made
		binary.BigEndian.PutUint32(again[1:], aliasSum(aliasName(key), value[5:aliasSize]))
		return again, nil
	case "epochs":
		v.kind("epoch version %d", value[0])
		e, err := parseEpoch(key, value)
		return appendEpoch(nil, &e), err
	case "audit":
		return v.block(binary.BigEndian.Uint64(key), value)
	case "trail_index":
		return v.span(key, value)
	}
	return value, nil // the ledger's, which its own package looks at
}

func throughJSON(text []byte, into any) ([]byte, error) {
	if err := json.Unmarshal(text, into); err != nil {
		return nil, err
	}
	return json.Marshal(into)
}

func (v *values) meta(name string, b []byte) ([]byte, error) {
	switch name {
	case "counters":
		c, err := parseCounters(b)
		v.kind("counters of a restored state: %v", c.restored > 0)
		return c.append(nil), err
	case "tally":
		y, err := parseTally(b)
		return y.append(nil), err
	case "opening":
		o, err := parseOpening(b)
		return appendOpening(nil, &o), err
	case "service":
		s, err := parseService(b)
		return appendService(nil, &s), err
	case "archived":
		m, err := parseArchiveMark(b)
		return appendArchiveMark(nil, &m), err
	case "pause":
		return throughJSON(b, new(queue.Pause))
	case "format":
		return binary.BigEndian.AppendUint32(nil, FormatVersion), nil
	case "clean":
		return []byte{1}, nil
	}
	return b, nil
}

// record decodes a message and encodes it anew.
func (v *values) record(b []byte) ([]byte, error) {
	m, err := parseRecord(b)
	if err != nil {
		return nil, err
	}
	v.kind("record version %d", b[0])
	v.kind("record route %d", b[offRoute])
	v.kind("record decision %d", b[offDecision])
	v.kind("record not before: %v", !m.notBefore.IsZero())
	msg := queue.Message{
		IdempotencyKey: m.msg.IdempotencyKey, TraceID: m.msg.TraceID, PartitionKey: m.msg.PartitionKey, LedgerEntity: m.msg.LedgerEntity,
		Decision: m.msg.Decision, Amount: m.msg.Amount, Currency: m.msg.Currency, Priority: m.priority, Route: m.route,
		NotBefore: m.notBefore, SourceHash: m.msg.SourceHash, Line: m.msg.Line,
	}
	again := appendRecord(nil, &msg, m.key)
	sealRecord(again, m.msg.Seq, m.acceptedAt)
	if b[0] == recordVersion {
		return again, nil
	}
	v.kind("past edited: %v", m.past.edited)
	v.kind("past replayed: %v", m.past.returns > 0)
	v.kind("past unanswered: %v", m.past.unanswered > 0)
	if m.past.edited {
		v.kind("past with a part of the line: %v", m.past.sent.bytes > int64(len(m.past.sent.line)))
	}
	return withPast(again, &m.past)
}

func (v *values) flight(seq uint64, b []byte) ([]byte, error) {
	f, err := parseFlight(seq, b)
	if err != nil {
		return nil, err
	}
	v.kind("flight version %d", b[0])
	v.kind("flight of owner %d", b[17])
	v.kind("flight wait %d", b[46])
	v.kind("flight of nothing but what was not answered: %v", !f.leased() && f.deliveries == 0 && f.failed == 0 && f.waitUntil.IsZero())
	return appendFlight(nil, &f), nil
}

func (v *values) letter(seq uint64, b []byte) ([]byte, error) {
	d, err := parseDead(seq, b)
	if err != nil {
		return nil, err
	}
	v.kind("dead version %d", b[0])
	for flag := byte(1); flag != 0; flag <<= 1 {
		if d.flags&flag != 0 {
			v.kind("dead flag %d", flag)
		}
	}
	v.kind("dead code %s", d.meta.Code)
	v.kind("dead place: %v", d.meta.Place != "")
	v.kind("dead unanswered: %v", d.meta.Unanswered > 0)
	if d.record, err = v.record(d.record); err != nil {
		return nil, err
	}
	return appendDead(nil, &d)
}

// block decodes a block of the trail. How it is compressed is free; all else is not.
func (v *values) block(number uint64, stored []byte) ([]byte, error) {
	b, err := queue.ParseBlock(number, stored)
	if err != nil {
		return nil, err
	}
	v.kind("block format %d", stored[0])
	v.kind("block codec %d", stored[1])
	v.kind("block of more than one record: %v", b.Count > 1)
	for line := range b.Lines() {
		r, err := queue.ParseRecord(line)
		if err != nil {
			return nil, err
		}
		if again := r.AppendNDJSON(nil); !bytes.Equal(again, line) {
			v.wrong = append(v.wrong, fmt.Sprintf("record %d: in the file\n  %s  written now\n  %s", r.N, line, again))
		}
		v.kind("event %s", r.Event)
		var members map[string]json.RawMessage
		if err := json.Unmarshal(line, &members); err != nil {
			return nil, err
		}
		for name := range members {
			v.kind("record member %s", name)
		}
	}
	again := queue.AppendBlock(nil, b, stored[1] == 1)
	if back, err := queue.ParseBlock(number, again); err != nil || !bytes.Equal(back.Plain, b.Plain) || !bytes.Equal(again[:50], stored[:50]) {
		return again, err
	}
	return stored, nil
}

func (v *values) span(key, b []byte) ([]byte, error) {
	var sp span
	if err := sp.parse(key, b); err != nil {
		return nil, err
	}
	v.kind("span version %d", b[0])
	v.kind("span with a filter: %v", len(sp.filter) > 0)
	return sp.append(nil), nil
}

// ledger looks at what the ledger holds, and what it is doing.
func (v *values) ledger(tx *bolt.Tx) error {
	l, err := ledger.Open(tx)
	if err != nil {
		return err
	}
	m, err := ledgerManifest(tx)
	if err != nil {
		return err
	}
	v.kind("ledger manifest version %d", m.Version)
	for _, s := range m.Segments {
		v.kind("ledger segment of tier %d", s.Tier)
	}
	for _, j := range m.Jobs {
		v.kind("ledger job of level %d, clearing %v, with a cursor %v", j.Level, j.Clearing, j.Cursor != nil)
	}
	return l.Walk(tx, ledger.Key{}, func(e ledger.Entry) bool {
		v.kind("ledger state %s", e.State)
		v.kind("ledger outcome: %v", e.Outcome != "")
		v.kind("ledger epoch beyond the first: %v", e.Epoch > 1)
		return true
	})
}

// manifestOfLedger is the ledger's manifest as docs/format.md has it.
type manifestOfLedger struct {
	Version  int
	Segments []struct{ Tier int }
	Jobs     []struct {
		Out      uint64
		Level    int
		Cursor   *ledger.Key
		Clearing bool
	}
}

func ledgerManifest(tx *bolt.Tx) (m manifestOfLedger, err error) {
	return m, json.Unmarshal(tx.Bucket([]byte("ledger_manifest")).Get([]byte("manifest"))[4:], &m)
}
