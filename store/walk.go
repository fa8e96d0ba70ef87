package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"

	"go.etcd.io/bbolt"
)

// walkBolt looks at every key of a bbolt file in their order, before it is opened for good. Where the pages of a
// damaged one do not hang together, bbolt panics in a goroutine of its own while it gathers the free ones, where
// nobody can turn that into an error. Here it finds the same in the caller's goroutine, or the order is wrong.
func walkBolt(path string) (err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil // it will be made
	}
	if err := checkMetas(path); err != nil {
		return err
	}
	options := *boltOptions()
	options.ReadOnly = true
	db, err := bbolt.Open(path, 0o600, &options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.View(func(tx *bbolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bbolt.Bucket) error {
			var last []byte
			return b.ForEach(func(k, _ []byte) error {
				if last != nil && bytes.Compare(last, k) >= 0 {
					return fmt.Errorf("%w: the keys of its part %q are not in order", ErrDamaged, name)
				}
				last = k // of a page that stays while the transaction lasts
				return nil
			})
		})
	})
}

// A bbolt file begins with two meta pages, each with a header of 16 bytes and a meta of 64, whose last 8 bytes are the FNV-1a of
// the others. A commit writes the older one of the two. Numbers are in the order of the machine.
const (
	boltMagic      = 0xED0CDAED
	boltPageHeader = 16
	boltMeta       = 64
)

// checkMetas refuses a bbolt file unless both of its meta pages are whole. bbolt is content with one, the older one if need be: it
// would go back, without a word, to before the last commit, which was acknowledged. A crash never leaves half a meta: it lies
// within one sector.
func checkMetas(path string) (err error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := readThrough(file); err != nil {
		return err
	}
	at := int64(0)
	for n := range 2 {
		page := make([]byte, boltPageHeader+boltMeta)
		if _, err := file.ReadAt(page, at); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		meta := page[boltPageHeader:]
		sum := fnv.New64a()
		sum.Write(meta[:boltMeta-8]) // never errs
		if binary.NativeEndian.Uint32(meta) != boltMagic || binary.NativeEndian.Uint64(meta[boltMeta-8:]) != sum.Sum64() {
			return fmt.Errorf("%w: meta page %d of 2 is not what was written", ErrDamaged, n+1)
		}
		at = int64(binary.NativeEndian.Uint32(meta[8:])) // the size of a page
	}
	return nil
}

// readThrough makes sure that what is read of a file is what the disk has, and reads it once in the order in which a disk is fast:
// bbolt reads page by page, here and there. Bytes that cannot be read are an error here, and a fault of memory in bbolt.
func readThrough(file *os.File) error {
	if err := file.Sync(); err != nil {
		return err
	}
	forget(file.Fd())
	_, err := io.Copy(io.Discard, struct{ io.Reader }{file})
	return err
}
