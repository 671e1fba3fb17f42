package boltstore

import bolt "go.etcd.io/bbolt"

// checkOrigin refuses a file that is not the one that was last in service here,
// unless Restore says that it is meant.
func (s *Store) checkOrigin(tx *bolt.Tx, archive bool) error {
	if archive && !s.options.Restore {
		return ErrArchive
	}
	return nil
}

// witness writes the head beside the file.
func (s *Store) witness() {}
