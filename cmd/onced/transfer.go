package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

const (
	transferWidth = 30
	drawEvery     = 100 * time.Millisecond // on a terminal
	tellEvery     = 2 * time.Second        // elsewhere
)

// transfer tells how many bytes of a whole have passed: by a bar that is drawn over itself on a terminal, by
// a line now and then elsewhere. It is an io.Writer that takes everything.
type transfer struct {
	w        io.Writer
	terminal bool
	name     string
	total    int64
	done     int64
	start    time.Time
	last     time.Time
	open     bool // a bar stands on the current line
}

func newTransfer(w io.Writer, name string, total int64) *transfer {
	return &transfer{w: w, terminal: onTerminal(w), name: name, total: total, start: time.Now(), last: time.Now()}
}

// onTerminal tells whether w is a terminal that can move its cursor.
func onTerminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Write counts p.
func (t *transfer) Write(p []byte) (int, error) {
	t.done += int64(len(p))
	every := tellEvery
	if t.terminal {
		every = drawEvery
	}
	now := time.Now()
	if now.Sub(t.last) < every && !(t.terminal && t.done == t.total) {
		return len(p), nil
	}
	t.last = now
	if !t.terminal {
		fmt.Fprintf(t.w, "%s: %s of %s, %s\n", t.name, formatBytes(t.done), formatBytes(t.total), now.Sub(t.start).Round(100*time.Millisecond))
		return len(p), nil
	}
	full := int(transferWidth * t.done / max(t.total, 1))
	full = min(full, transferWidth)
	fmt.Fprintf(t.w, "\r%s [%s%s] %9s / %s ", t.name, strings.Repeat("█", full), strings.Repeat("·", transferWidth-full), formatBytes(t.done), formatBytes(t.total))
	t.open = true
	return len(p), nil
}

// end leaves the bar's line.
func (t *transfer) end() {
	if t.open {
		fmt.Fprintln(t.w)
		t.open = false
	}
}

// formatBytes writes n for a person.
func formatBytes(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, i := float64(n)/unit, 0
	for value >= unit && i < 3 {
		value, i = value/unit, i+1
	}
	return fmt.Sprintf("%.1f %s", value, [...]string{"KiB", "MiB", "GiB", "TiB"}[i])
}
