package boltstore

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"

	"breakwater/queue"
	"breakwater/storage/boltstore/ledger"
)

// An alias leads from what was the content of a message before it was edited to the
// idempotency key under which the ledger knows the message now: so that a sender who
// repeats a line is told what became of it, also when a person has corrected it since.
//
// Aliases are few, made by people, and in a bucket of their own that a file has only
// after its first edit; until then a new line costs no look-up more. One whose message
// the ledger has forgotten means nothing, and is dropped by a later edit. Stored form:
// version, CRC-32C of the key and of all that follows, ledger key, seq.
type alias struct {
	key ledger.Key
	seq uint64
}

const (
	aliasVersion = 1
	aliasSize    = 1 + 4 + 16 + 8

	// aliasSweep is how many aliases each edit looks at, to drop those that lead
	// nowhere: more than an edit can add.
	aliasSweep = 16
)

// aliasName is what an alias is known by.
type aliasName [16]byte

// aliasOf hashes what an alias stands for, with the file's secret.
func aliasOf(secret [32]byte, kind string, parts ...[]byte) aliasName {
	h := sha256.New()
	h.Write(secret[:])
	h.Write([]byte(kind))
	for _, p := range parts {
		h.Write(p)
	}
	return aliasName(h.Sum(nil)[:16])
}

// lineName names a line byte for byte, whatever the gates think of it.
func (x *txn) lineName(line queue.Hash) aliasName { return aliasOf(x.t.secret, "line", line[:]) }

// contentName names content under an idempotency key, however it is spelled.
func (x *txn) contentName(key ledger.Key, fingerprint [16]byte) aliasName {
	return aliasOf(x.t.secret, "content", key[:], fingerprint[:])
}

// follow returns the ledger's entry to which an alias leads; ok is false if it leads
// nowhere (any more).
func (x *txn) follow(name aliasName) (e ledger.Entry, ok bool, err error) {
	if x.b.aliases == nil {
		return e, false, nil
	}
	b := x.b.aliases.Get(name[:])
	if b == nil {
		return e, false, nil
	}
	if len(b) != aliasSize || b[0] != aliasVersion || binary.BigEndian.Uint32(b[1:]) != aliasSum(name, b[5:]) {
		return e, false, fmt.Errorf("%w %x does not match its checksum", errAlias, name)
	}
	e, err = x.recall(ledger.Key(b[5:21]))
	return e, x.t.taken(e) && e.Seq == binary.BigEndian.Uint64(b[21:]), err
}

// errAlias: nobody knows where an alias leads.
var errAlias = fmt.Errorf("%w: alias", queue.ErrDamaged)

func aliasSum(name aliasName, body []byte) uint32 { return keySum(name[:], body) }

// alias remembers an alias, unless the name leads to another message already, or may
// lead to one: then whoever sends that content is told that nobody knows.
func (x *txn) alias(name aliasName, to alias) (err error) {
	e, ok, err := x.follow(name)
	switch {
	case inDoubt(err):
		return nil
	case err != nil || ok && e.Seq != to.seq:
		return err
	}
	if x.b.aliases == nil {
		if x.b.aliases, err = x.tx.CreateBucket(bucketAliases); err != nil {
			return fmt.Errorf("make bucket %s: %w", bucketAliases, err)
		}
	}
	b := make([]byte, 5, aliasSize)
	b[0] = aliasVersion
	b = binary.BigEndian.AppendUint64(append(b, to.key[:]...), to.seq)
	binary.BigEndian.PutUint32(b[1:], aliasSum(name, b[5:]))
	return x.b.aliases.Put(name[:], b)
}

// sweepAliases drops what leads nowhere among the next few aliases.
func (x *txn) sweepAliases() error {
	if x.b.aliases == nil {
		return nil
	}
	var over []aliasName
	c := x.b.aliases.Cursor()
	at, _ := c.Seek(x.t.swept[:])
	for range aliasSweep {
		if at == nil {
			break
		}
		name := aliasName(at)
		_, ok, err := x.follow(name)
		if err != nil && !inDoubt(err) {
			return err
		}
		if err == nil && !ok { // one that is in doubt stays
			over = append(over, name)
		}
		at, _ = c.Next()
	}
	x.t.swept = aliasName{}
	copy(x.t.swept[:], at)
	for _, name := range over {
		if err := x.b.aliases.Delete(name[:]); err != nil {
			return err
		}
	}
	return nil
}
