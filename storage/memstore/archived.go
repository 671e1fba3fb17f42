package memstore

import (
	"context"
	"fmt"

	"breakwater/queue"
)

// Archived records an archive and moves the mark.
func (s *Store) Archived(ctx context.Context, a queue.Action, i queue.ArchiveInfo) error {
	var refused error
	err := s.write(ctx, func() {
		if !s.knows(&i) {
			refused = fmt.Errorf("%w: the head %s of an archive", queue.ErrNotFound, i.Head)
			return
		}
		s.record(queue.ArchivedRecord(&a, &i))
		if i.Records > s.archived.N {
			s.archived = queue.ArchiveMark{Head: i.Head, N: i.Records, At: micros(a.Now)}
		}
	})
	if err != nil {
		return err
	}
	return refused
}

// knows looks for an archive's head in the chain. Of a block that has been trimmed
// there is nothing to compare with, and nothing left that the mark could let go.
func (s *state) knows(i *queue.ArchiveInfo) bool {
	if i.Head.Block == 0 || len(s.blocks) == 0 {
		return false
	}
	if i.Head.Block < s.blocks[0].Number {
		return true
	}
	for _, b := range s.blocks {
		if b.Number == i.Head.Block {
			return b.Head() == i.Head && b.LastN() == i.Records
		}
	}
	return false
}
