package boltstore

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
	"breakwater/storage/boltstore/ledger"
)

// This file checks the small buckets, each value by itself: what a start reads, and
// what nobody reads until it is needed.

// metaNames are all names in bucket meta.
var metaNames = [][]byte{
	metaFormat, metaID, metaSecret, metaCounters, metaTally, metaConfig, metaConfigSum, metaService, metaOpening, metaPause, metaClean, metaArchive, metaArchived,
}

// verifySmall checks the small buckets, and that there are no others.
func (s *Store) verifySmall(_ context.Context, v *queue.Verifier) error {
	return s.view(func(tx *bolt.Tx) error {
		if _, err := identify(tx); err != nil {
			v.Report(queue.Finding{What: fmt.Sprintf("bucket %s: %v", bucketMeta, err)})
		}
		if err := checkConfig(tx.Bucket(bucketMeta)); err != nil {
			v.Report(queue.Finding{What: err.Error()})
		}
		known := append(slices.Concat(allBuckets, ledger.Buckets()), bucketAliases, bucketTrailIndex)
		return errors.Join(
			tx.ForEach(func(name []byte, _ *bolt.Bucket) error {
				if !contains(known, name) {
					v.Report(queue.Finding{What: fmt.Sprintf("bucket %s is none of a store's", queue.Quote(string(name), 64))})
				}
				return nil
			}),
			eachOf(tx, v, bucketMeta, checkMeta),
			eachOf(tx, v, bucketFlight, checkFlight),
			eachOf(tx, v, bucketEpochs, func(at, b []byte) error { _, err := parseEpoch(at, b); return err }),
			eachOf(tx, v, bucketAliases, checkAlias),
			eachOf(tx, v, bucketHeld, func(_, b []byte) error { return json.Unmarshal(b, &keyHold{}) }),
			eachOf(tx, v, bucketParked, func(_, b []byte) error {
				if len(b) > 0 {
					return errors.New("it has a value")
				}
				return nil
			}),
		)
	})
}

func contains(list [][]byte, name []byte) bool {
	return slices.ContainsFunc(list, func(k []byte) bool { return string(k) == string(name) })
}

// eachOf checks every entry of a bucket, if there is such a bucket.
func eachOf(tx *bolt.Tx, v *queue.Verifier, name []byte, check func(at, value []byte) error) error {
	b := tx.Bucket(name)
	if b == nil {
		return nil
	}
	return b.ForEach(func(at, value []byte) error {
		if err := check(at, value); err != nil {
			f := queue.Finding{What: fmt.Sprintf("bucket %s, key %x: %v", name, at, err)}
			if len(at) == 8 {
				f.Seq = seqOf(name, at)
			}
			v.Report(f)
		}
		return nil
	})
}

// seqOf is the seq that a key of eight bytes is, in a bucket whose keys are seqs.
func seqOf(bucket, at []byte) uint64 {
	if contains([][]byte{bucketFlight, bucketTimed, bucketDead}, bucket) {
		return binary.BigEndian.Uint64(at)
	}
	return 0
}

func checkFlight(at, b []byte) error {
	if len(at) != 8 {
		return fmt.Errorf("%w: it is no seq", queue.ErrDamaged)
	}
	_, err := parseFlight(binary.BigEndian.Uint64(at), b)
	return err
}

func checkAlias(at, b []byte) error {
	if len(at) != len(aliasName{}) || len(b) != aliasSize || b[0] != aliasVersion || binary.BigEndian.Uint32(b[1:]) != aliasSum(aliasName(at), b[5:]) {
		return fmt.Errorf("%w: it does not match its checksum", queue.ErrDamaged)
	}
	return nil
}

// checkMeta checks one value of bucket meta. The identity is identify's.
func checkMeta(name, b []byte) (err error) {
	switch {
	case !contains(metaNames, name):
		err = fmt.Errorf("%w: there is no such name", queue.ErrDamaged)
	case string(name) == string(metaCounters):
		_, err = parseCounters(b)
	case string(name) == string(metaTally):
		_, err = parseTally(b)
	case string(name) == string(metaService):
		_, err = parseService(b)
	case string(name) == string(metaOpening):
		_, err = parseOpening(b)
	case string(name) == string(metaArchived):
		_, err = parseArchiveMark(b)
	case string(name) == string(metaPause):
		err = json.Unmarshal(b, new(queue.Pause))
	case string(name) == string(metaClean) && string(b) != "\x01":
		err = fmt.Errorf("%w: it is not the mark of a clean stop", queue.ErrDamaged)
	}
	return err
}

// configSum is the checksum of the stored configuration, under a name of its own: the
// value is the document and nothing else.
func configSum(config []byte) []byte {
	return binary.BigEndian.AppendUint32(nil, crc32.Checksum(config, castagnoli))
}

// checkConfig compares the stored configuration with its checksum. A file of a program
// that wrote none is not judged by it.
func checkConfig(meta *bolt.Bucket) error {
	sum := meta.Get(metaConfigSum)
	if sum != nil && string(sum) != string(configSum(meta.Get(metaConfig))) {
		return fmt.Errorf("%w: the configuration in bucket meta does not match its checksum", queue.ErrDamaged)
	}
	return nil
}
