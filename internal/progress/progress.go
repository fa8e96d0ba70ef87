// Package progress tells a person how far something is that takes long: by a bar that is drawn over
// itself on a terminal, by a line now and then elsewhere.
//
// Invariants:
//
//   - What is drawn is for people alone: it goes to stderr, and nothing reads it back.
//   - A line that is said never stands on the same line as a bar.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

const (
	barWidth  = 30
	barEvery  = 100 * time.Millisecond
	lineEvery = 2 * time.Second
)

// Bar tells of one thing after another. It is safe for concurrent use.
type Bar struct {
	w        io.Writer
	terminal bool
	every    time.Duration // between lines

	mu    sync.Mutex
	name  string
	unit  string
	start time.Time
	last  time.Time
	open  bool // a bar stands on the current line
	width int  // of that bar's text
}

// New returns a Bar that writes to w.
func New(w io.Writer) *Bar { return &Bar{w: w, terminal: isTerminal(w), every: lineEvery} }

// Slowly sets how long it is from one line to the next where there is no terminal. To be called before anything is told.
func (b *Bar) Slowly(every time.Duration) { b.every = every }

// isTerminal tells whether w is a terminal that can move its cursor.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// Begin names what comes next, and what it is counted in, such as "requests".
func (b *Bar) Begin(name, unit string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closeBar()
	b.name, b.unit, b.start, b.last = name, unit, time.Now(), time.Now()
}

// Say prints one line.
func (b *Bar) Say(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closeBar()
	fmt.Fprintf(b.w, format+"\n", args...)
}

// Step tells that done of total are over. It prints when it is time to, and at the end.
func (b *Bar) Step(done, total int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	full := float64(done) / float64(max(total, 1))
	if b.terminal {
		b.draw(full, fmt.Sprintf("%7s / %s", Thousands(done), Thousands(total)))
		return
	}
	b.draw(full, fmt.Sprintf("%s of %s %s, %s", Thousands(done), Thousands(total), b.unit, time.Since(b.start).Round(100*time.Millisecond)))
}

// Tell tells that a part of it, from 0 to 1, is over, in words of the caller. It prints when it is
// time to, and at the end.
func (b *Bar) Tell(part float64, text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.draw(part, text)
}

// Finish ends the bar that is drawn, if there is one.
func (b *Bar) Finish() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closeBar()
}

func (b *Bar) draw(part float64, text string) {
	every := b.every
	if b.terminal {
		every = barEvery
	}
	now := time.Now()
	if part < 1 && now.Sub(b.last) < every {
		return
	}
	b.last = now
	if !b.terminal {
		fmt.Fprintf(b.w, "%s: %s\n", b.name, text)
		return
	}
	full := min(max(int(barWidth*part), 0), barWidth)
	width := utf8.RuneCountInString(text)
	fmt.Fprintf(b.w, "\r%-14s [%s%s] %s %s", b.name, strings.Repeat("█", full), strings.Repeat("·", barWidth-full), text,
		strings.Repeat(" ", max(b.width-width, 0))) // over what a longer text has left
	b.open, b.width = true, width
	if part >= 1 {
		b.closeBar()
	}
}

func (b *Bar) closeBar() {
	if b.open {
		fmt.Fprintln(b.w)
		b.open, b.width = false, 0
	}
}

// Thousands writes n with a comma before every third digit.
func Thousands(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
