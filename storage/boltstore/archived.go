package boltstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"breakwater/queue"
)

// Archived records an archive and moves the mark; see [queue.Store].
func (s *Store) Archived(ctx context.Context, a queue.Action, i queue.ArchiveInfo) error {
	var refused error
	err := s.do(ctx, &operation{apply: func(x *txn) error {
		if refused = x.knows(&i); refused != nil {
			return nil
		}
		x.record(queue.ArchivedRecord(&a, &i))
		if i.Records <= x.t.archived.N {
			return nil
		}
		x.t.archived = queue.ArchiveMark{Head: i.Head, N: i.Records, At: micros(uint64(a.Now.UnixMicro()))}
		return x.b.meta.Put(metaArchived, appendArchiveMark(nil, &x.t.archived))
	}})
	if err != nil {
		return err
	}
	return refused
}

// knows looks for an archive's head in the chain. Of a block that has been trimmed
// since there is nothing to compare with, and nothing left that the mark could let go.
func (x *txn) knows(i *queue.ArchiveInfo) error {
	here := queue.ArchiveMark{Head: x.t.count.head, N: x.t.count.lastN}
	if i.Head.Block != here.Head.Block {
		data := x.b.audit.Get(seqKey(i.Head.Block))
		first, _ := x.b.audit.Cursor().First()
		if data == nil && first != nil && i.Head.Block > 0 && i.Head.Block < binary.BigEndian.Uint64(first) {
			return nil
		}
		if data == nil {
			return fmt.Errorf("%w: block %d of an archive", queue.ErrNotFound, i.Head.Block)
		}
		b, err := queue.ParseBlock(i.Head.Block, data)
		if err != nil {
			return fmt.Errorf("block %d of the trail: %w: %w", i.Head.Block, queue.ErrDamaged, err)
		}
		here = queue.ArchiveMark{Head: b.Head(), N: b.LastN()}
	}
	if i.Head.Block == 0 || here.Head != i.Head || here.N != i.Records {
		return fmt.Errorf("%w: the head %s of an archive, with record %d", queue.ErrNotFound, i.Head, i.Records)
	}
	return nil
}

// The mark's encoding.
const (
	archiveMarkVersion = 1
	archiveMarkSize    = 1 + 4 + 8 + 32 + 8 + 8
)

// appendArchiveMark encodes the mark: version, CRC-32C of the rest, block, hash,
// record, time.
func appendArchiveMark(dst []byte, m *queue.ArchiveMark) []byte {
	start := len(dst)
	dst = append(dst, archiveMarkVersion, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint64(dst, m.Head.Block)
	dst = append(dst, m.Head.Hash[:]...)
	dst = binary.BigEndian.AppendUint64(dst, m.N)
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.At.UnixMicro()))
	binary.BigEndian.PutUint32(dst[start+1:], crc32.Checksum(dst[start+5:], castagnoli))
	return dst
}

// parseArchiveMark decodes what appendArchiveMark wrote; nothing is the zero mark.
func parseArchiveMark(b []byte) (m queue.ArchiveMark, err error) {
	if b == nil {
		return m, nil
	}
	if len(b) != archiveMarkSize || b[0] != archiveMarkVersion ||
		binary.BigEndian.Uint32(b[1:]) != crc32.Checksum(b[5:], castagnoli) {
		return m, fmt.Errorf("%w: the mark of the archive in bucket meta", queue.ErrDamaged)
	}
	b = b[5:]
	m.Head.Block = binary.BigEndian.Uint64(b)
	copy(m.Head.Hash[:], b[8:])
	m.N = binary.BigEndian.Uint64(b[40:])
	m.At = micros(binary.BigEndian.Uint64(b[48:]))
	return m, nil
}

// verifyMark looks for the mark in the chain: one beyond it, or beside it, would let
// go of records that no archive holds.
func (s *Store) verifyMark(ctx context.Context, v *queue.Verifier) error {
	return s.look(ctx, func(x *txn) error {
		m := x.t.archived
		if m == (queue.ArchiveMark{}) {
			return nil
		}
		if err := x.knows(&queue.ArchiveInfo{Head: m.Head, Records: m.N}); err != nil {
			v.Report(queue.Finding{Block: m.Head.Block, N: m.N, What: fmt.Sprintf("the mark of what is archived: %v", err)})
		}
		return nil
	})
}
