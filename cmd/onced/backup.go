package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"onced/httpapi"
	"onced/store"
)

// stalledAfter is how long a node may send nothing of a backup.
const stalledAfter = time.Minute

type backupCommand struct {
	clusterFlags
	File  string `arg:"" help:"Where to put it. There must be no such file yet."`
	Stale bool   `help:"Take the first node's table as it is, also while it has no leader: writes may be missing."`
}

// taken is what is told of a backup.
type taken struct {
	File    string `json:"file"`
	Bytes   int64  `json:"bytes"`
	Cluster string `json:"cluster_id"`
	Index   uint64 `json:"index"`
	Node    string `json:"node"`
}

// Run writes FILE.tmp, checks on the way that it is whole, makes it durable, and gives it its name.
func (c *backupCommand) Run(a *app) error {
	if _, err := os.Lstat(c.File); err == nil {
		return refusal{fmt.Errorf("%s is there already: expected the name of a new file", c.File)}
	}
	tmp, err := os.OpenFile(c.File+".tmp", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return refusal{err}
	}
	var out taken
	err = c.inTurn(a.ctx, func(r remote) error {
		if err := rewind(tmp); err != nil {
			return answered{err: err}
		}
		out, err = c.take(a, r, tmp)
		return err
	})
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = publish(tmp.Name(), c.File)
	}
	if err != nil {
		_ = os.Remove(tmp.Name()) // there is nothing of use in it
		return err
	}
	out.File = c.File
	if c.Output.json() {
		return json.NewEncoder(a.stdout).Encode(out)
	}
	fmt.Fprintf(a.stdout, "%s: %s, whole, of cluster %s up to log entry %d, from %s\n", out.File, formatBytes(out.Bytes), out.Cluster, out.Index, out.Node)
	return nil
}

func rewind(f *os.File) error {
	_, err := f.Seek(0, io.SeekStart)
	return errors.Join(err, f.Truncate(0))
}

// take copies one node's backup to w and checks it.
func (c *backupCommand) take(a *app, r remote, w io.Writer) (taken, error) {
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	path := "/v1/backup"
	if c.Stale {
		path += "?stale=true"
	}
	request, err := r.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return taken{}, err
	}
	alive := time.AfterFunc(stalledAfter, cancel)
	defer alive.Stop()
	response, err := r.http.Do(request)
	if err != nil {
		return taken{}, err
	}
	defer response.Body.Close()
	if err := r.refused(response); err != nil {
		return taken{}, err
	}
	bar := newTransfer(a.stderr, "backup", response.ContentLength)
	defer bar.end()
	written := &written{w: w}
	body := io.TeeReader(&lively{response.Body, alive}, io.MultiWriter(written, bar))
	info, err := store.VerifyBackup(body)
	switch {
	case written.err != nil:
		return taken{}, answered{err: written.err}
	case err != nil:
		return taken{}, fmt.Errorf("%s: %w", r.base, err)
	}
	return taken{Bytes: info.Bytes, Cluster: response.Header.Get(httpapi.BackupClusterHeader), Index: info.Index, Node: r.base}, nil
}

// written keeps the error of a write: no other node would mend it.
type written struct {
	w   io.Writer
	err error
}

func (w *written) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	if err != nil {
		w.err = err
	}
	return n, err
}

// lively puts the end off as long as something comes.
type lively struct {
	io.Reader
	timer *time.Timer
}

func (l *lively) Read(p []byte) (int, error) {
	n, err := l.Reader.Read(p)
	if n > 0 {
		l.timer.Reset(stalledAfter)
	}
	return n, err
}

// publish gives a file, whose bytes are durable, its name, durably. A file that has come there meanwhile stays.
func publish(tmp, name string) error {
	if _, err := os.Lstat(name); err == nil {
		return fmt.Errorf("%s has come there meanwhile: it stays", name)
	}
	if err := os.Rename(tmp, name); err != nil {
		return err
	}
	dir, err := os.Open(filepath.Dir(name))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
