package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// Dir is a Store in a directory, which several gateways may share. A blob is a file under
// the folder of its hour; what is being written is in the folder tmp.
type Dir struct{ path string }

const (
	tmpFolder = "tmp"
	// deadAfter is how long a file in tmp may stay unwritten before its writer counts as dead. No answer is
	// waited for so long.
	deadAfter = 48 * time.Hour
)

// OpenDir returns the Store in path, which it makes where it is missing. It writes a file and
// deletes it again, so that a directory that cannot be used is told at the start.
func OpenDir(path string) (*Dir, error) {
	d := &Dir{path: path}
	if err := os.MkdirAll(filepath.Join(path, tmpFolder), 0o700); err != nil {
		return nil, fmt.Errorf("making the directory of the blobs: %w", err)
	}
	w, err := d.create()
	if err != nil {
		return nil, err
	}
	defer w.Abort()
	if err := w.file.Sync(); err != nil {
		return nil, fmt.Errorf("writing to the directory of the blobs: %w", err)
	}
	return d, nil
}

func (d *Dir) file(n Name) string { return filepath.Join(d.path, filepath.FromSlash(string(n))) }

// Create is part of Store.
func (d *Dir) Create(_ context.Context, n Name) (Writer, error) {
	w, err := d.create()
	if err != nil {
		return nil, err
	}
	w.final = d.file(n)
	return w, nil
}

func (d *Dir) create() (*dirWriter, error) {
	f, err := os.CreateTemp(filepath.Join(d.path, tmpFolder), "blob-") // mode 0600
	if err != nil {
		return nil, fmt.Errorf("creating a blob: %w", err)
	}
	return &dirWriter{dir: d, file: f}, nil
}

// Open is part of Store.
func (d *Dir) Open(_ context.Context, n Name) (io.ReadSeekCloser, error) {
	f, err := os.Open(d.file(n))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("opening a blob: %w", err)
	}
	return f, nil
}

// Delete is part of Store.
func (d *Dir) Delete(_ context.Context, n Name) error { return removed(os.Remove(d.file(n))) }

// removed is err, where it is not that somebody else was faster.
func removed(err error) error {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return fmt.Errorf("deleting a blob: %w", err)
}

// dirWriter writes one file.
type dirWriter struct {
	dir   *Dir
	file  *os.File
	final string
	ended bool
}

// Write is part of Writer.
func (w *dirWriter) Write(p []byte) (int, error) {
	n, err := w.file.Write(p)
	if err != nil {
		err = fmt.Errorf("writing a blob: %w", err)
	}
	return n, err
}

// Commit is part of Writer: the file is durable before it has its name, and its name before
// Commit returns.
func (w *dirWriter) Commit(context.Context) error {
	defer w.Abort()
	if err := w.file.Sync(); err != nil {
		return fmt.Errorf("syncing a blob: %w", err)
	}
	folder := filepath.Dir(w.final)
	switch err := os.Mkdir(folder, 0o700); {
	case err == nil, errors.Is(err, fs.ErrExist): // also then: whoever made it may not have synced it yet
		if err := syncFolder(w.dir.path); err != nil {
			return err
		}
	default:
		return fmt.Errorf("making the folder of a blob: %w", err)
	}
	if err := os.Rename(w.file.Name(), w.final); err != nil {
		return fmt.Errorf("naming a blob: %w", err)
	}
	w.ended = true
	w.file.Close()
	if err := syncFolder(folder); err != nil {
		return errors.Join(err, removed(os.Remove(w.final)))
	}
	return nil
}

// Abort is part of Writer.
func (w *dirWriter) Abort() {
	if !w.ended {
		w.ended = true
		w.file.Close()
		os.Remove(w.file.Name())
	}
}

func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("syncing the folder of a blob: %w", err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("syncing the folder of a blob: %w", err)
	}
	return nil
}

// Sweep is part of Store. What another gateway deleted meanwhile is not counted, and what is not
// ours is left alone.
func (d *Dir) Sweep(ctx context.Context, now time.Time) (int, error) {
	folders, err := os.ReadDir(d.path)
	if err != nil {
		return 0, fmt.Errorf("sweeping the blobs: %w", err)
	}
	count := 0
	var errs []error
	for _, folder := range folders {
		due, err := ParseHour(folder.Name())
		if err != nil || !due.Before(now) {
			continue
		}
		n, err := d.sweepFolder(ctx, filepath.Join(d.path, folder.Name()), func(fs.DirEntry) bool { return true })
		count += n
		errs = append(errs, err)
		os.Remove(filepath.Join(d.path, folder.Name())) // where it is empty now
	}
	_, err = d.sweepFolder(ctx, filepath.Join(d.path, tmpFolder), func(e fs.DirEntry) bool {
		info, err := e.Info()
		return err == nil && now.Sub(info.ModTime()) > deadAfter
	})
	return count, errors.Join(append(errs, err)...)
}

// sweepFolder deletes the files of a folder that are not wanted.
func (d *Dir) sweepFolder(ctx context.Context, path string, unwanted func(fs.DirEntry) bool) (int, error) {
	entries, err := os.ReadDir(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("sweeping the blobs: %w", err)
	}
	count := 0
	var errs []error
	for _, e := range entries {
		if ctx.Err() != nil {
			return count, ctx.Err()
		}
		if e.IsDir() || !unwanted(e) {
			continue
		}
		switch err := os.Remove(filepath.Join(path, e.Name())); {
		case err == nil:
			count++
		default:
			errs = append(errs, removed(err))
		}
	}
	return count, errors.Join(errs...)
}
