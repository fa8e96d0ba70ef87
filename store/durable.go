package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// tmpSuffix marks what is unfinished. Nothing with this suffix is ever read.
const tmpSuffix = ".tmp"

// files is a file system, the data directory on it, and the guard over it. Every file but raft's
// two goes through it, so that tests can lose power at each step.
type files struct {
	vfs.FS
	root  string
	guard *guard
}

func (f files) path(elem ...string) string {
	return f.PathJoin(append([]string{f.root}, elem...)...)
}

// replace puts a file in place such that a crash leaves the old or the new one, whole:
// write beside, fsync the bytes, rename, fsync the directory that has the name.
// The steps are told to the guard as name+".write", ".rename" and ".sync".
func (f files) replace(name, path string, data []byte) error {
	if err := f.guard.step(name + ".write"); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	if err := f.writeSynced(path+tmpSuffix, data); err != nil {
		return err
	}
	return f.publish(name, path)
}

// publish renames path.tmp, which is durable, to path, durably.
func (f files) publish(name, path string) error {
	if err := f.guard.step(name + ".rename"); err != nil {
		return fmt.Errorf("renaming %s: %w", path, err)
	}
	if err := f.Rename(path+tmpSuffix, path); err != nil {
		return fmt.Errorf("renaming %s: %w", path+tmpSuffix, err)
	}
	if err := f.guard.step(name + ".sync"); err != nil {
		return fmt.Errorf("syncing the directory of %s: %w", path, err)
	}
	return f.syncDir(f.PathDir(path))
}

// writeSynced writes a file and fsyncs its bytes; its name is not durable yet.
func (f files) writeSynced(path string, data []byte) error {
	file, err := f.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return fmt.Errorf("creating %s: %w", path, err)
	}
	_, err = file.Write(data)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// syncDir makes the names in a directory durable.
func (f files) syncDir(path string) error {
	dir, err := f.OpenDir(path)
	if err != nil {
		return fmt.Errorf("opening directory %s: %w", path, err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		return fmt.Errorf("syncing directory %s: %w", path, err)
	}
	return nil
}

// makeDir makes a directory in the data directory, durably.
func (f files) makeDir(name string) error {
	if err := f.MkdirAll(f.path(name), 0o700); err != nil {
		return fmt.Errorf("making directory %s: %w", f.path(name), err)
	}
	return f.syncDir(f.root)
}

// read returns a file's bytes; fs.ErrNotExist when there is none.
func (f files) read(path string) ([]byte, error) {
	file, err := f.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", path, err)
	}
	data, err := io.ReadAll(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return data, nil
}

// exists tells whether there is something at path.
func (f files) exists(path string) (bool, error) {
	_, err := f.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// sweep removes what a crash left unfinished in a directory of the data directory (raft#714).
func (f files) sweep(dir string) error {
	names, err := f.List(dir)
	if err != nil {
		return fmt.Errorf("listing %s: %w", dir, err)
	}
	for _, name := range names {
		if !strings.HasSuffix(name, tmpSuffix) {
			continue
		}
		if err := f.RemoveAll(f.PathJoin(dir, name)); err != nil {
			return fmt.Errorf("removing unfinished %s: %w", f.PathJoin(dir, name), err)
		}
	}
	return nil
}

// sealed is the form of our small files: a body and the checksum of its bytes.
type sealed struct {
	Body   json.RawMessage `json:"body"`
	CRC32C string          `json:"crc32c"`
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal encodes v with its checksum.
func seal(v any) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	data, err := json.Marshal(sealed{Body: body, CRC32C: fmt.Sprintf("%08x", crc32.Checksum(body, castagnoli))})
	return append(data, '\n'), err
}

// unseal is the inverse of seal. What was cut short or changed is ErrDamaged.
func unseal(data []byte, v any) error {
	var s sealed
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if sum := fmt.Sprintf("%08x", crc32.Checksum(s.Body, castagnoli)); sum != s.CRC32C {
		return fmt.Errorf("%w: its checksum is %s, expected %q", ErrDamaged, sum, s.CRC32C)
	}
	if err := json.Unmarshal(s.Body, v); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return nil
}
