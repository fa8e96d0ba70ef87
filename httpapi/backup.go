package httpapi

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"onced"
)

// Headers of a backup.
const (
	BackupIndexHeader   = "Onced-Backup-Index"   // the last log entry that is surely in it
	BackupClusterHeader = "Onced-Backup-Cluster" // the id of its cluster
)

// chunkWithin is how long a caller may take for one chunk of a backup.
const chunkWithin = 30 * time.Second

// backup answers GET /v1/backup: the bytes as they are, whose checksum is at their end. A caller who gets fewer than
// Content-Length has none.
func (c *call) backup() error {
	stale, err := c.params.boolean("stale")
	if err != nil {
		return err
	}
	if c.r.Method == http.MethodHead {
		return onced.Problemf(onced.CodeInvalidRequest, "a backup has no head of its own: expected GET")
	}
	ctx, cancel := c.context(0, false)
	defer cancel()
	b, err := c.Admin.Backup(ctx, stale)
	if err != nil {
		c.auditBackup(0, err)
		return err
	}
	defer b.Close()
	h := c.w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Length", strconv.FormatInt(b.Size, 10))
	h.Set("Cache-Control", "no-store")
	h.Set(BackupIndexHeader, strconv.FormatUint(b.Index, 10))
	h.Set(BackupClusterHeader, b.ClusterID)
	c.w.WriteHeader(http.StatusOK)
	n, err := c.stream(b)
	if err == nil && n != b.Size {
		err = io.ErrUnexpectedEOF
	}
	c.auditBackup(n, err)
	if err != nil {
		panic(http.ErrAbortHandler) // half a backup must not look like a whole one
	}
	c.seen.outcome = "ok"
	return nil
}

// stream sends r as fast as the caller takes it: each chunk has its time, the whole has none.
func (c *call) stream(r io.Reader) (sent int64, err error) {
	control := http.NewResponseController(c.seen.ResponseWriter)
	buf := make([]byte, 256<<10)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			if err := control.SetWriteDeadline(time.Now().Add(chunkWithin)); err != nil && !errors.Is(err, http.ErrNotSupported) {
				return sent, err
			}
			if _, err := c.w.Write(buf[:n]); err != nil {
				return sent, err
			}
			sent += int64(n)
		}
		switch {
		case err == io.EOF:
			return sent, nil
		case err != nil:
			return sent, err
		}
	}
}

// auditBackup writes the one line that tells who got a copy of everything.
func (c *call) auditBackup(bytes int64, err error) {
	outcome := "ok"
	if err != nil {
		outcome = "failed: " + err.Error()
	}
	c.Logger.LogAttrs(c.r.Context(), slog.LevelInfo, "audit",
		slog.String("who", c.caller.Name),
		slog.String("remote", c.r.RemoteAddr),
		slog.String("verb", "backup"),
		slog.Int64("bytes", bytes),
		slog.String("outcome", outcome),
		slog.String("request_id", c.seen.requestID))
}
