package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"onced"
	"onced/internal/wire"
)

// listing prints a list page by page, so that a long one is not held in memory.
type listing interface {
	page(records []onced.Record) error
	end(cursor string) error // cursor is "" when nothing is left
}

// jsonPages is one object in the API's shape. A list that breaks off in the middle is left without
// its end, so that no program takes it for whole.
type jsonPages struct {
	w     io.Writer
	begun bool
}

func (p *jsonPages) page(records []onced.Record) error {
	for _, rec := range records {
		if err := p.open(); err != nil {
			return err
		}
		if _, err := p.w.Write(wire.AppendRecord(nil, rec)); err != nil {
			return err
		}
	}
	return nil
}

// open writes what stands before the next record.
func (p *jsonPages) open() error {
	before := ",\n"
	if !p.begun {
		before = `{"records":[` + "\n"
	}
	p.begun = true
	_, err := io.WriteString(p.w, before)
	return err
}

func (p *jsonPages) end(cursor string) error {
	before := ""
	if !p.begun {
		before = `{"records":[`
	}
	quoted, err := json.Marshal(cursor)
	if err == nil {
		_, err = fmt.Fprintf(p.w, "%s\n],\"next_cursor\":%s}\n", before, quoted)
	}
	return err
}

// tablePages is a table for people, aligned within each page.
type tablePages struct {
	w        io.Writer
	filtered bool
	count    int
}

func (p *tablePages) page(records []onced.Record) error {
	if len(records) == 0 {
		return nil
	}
	t := tabwriter.NewWriter(p.w, 0, 0, 2, ' ', 0)
	if p.count == 0 {
		fmt.Fprintln(t, "SCOPE\tKEY\tSTATE\tATTEMPT\tAGE\tDUE")
	}
	now := time.Now()
	for _, rec := range records {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%s\t%s\n", orElse(quoteOdd(rec.Scope), "-"), quoteOdd(string(rec.Key)), rec.State,
			rec.Attempt, span(now.Sub(rec.CreatedAt.Time())), due(rec, now))
	}
	p.count += len(records)
	return t.Flush()
}

func (p *tablePages) end(cursor string) error {
	var err error
	switch {
	case p.count == 0 && p.filtered:
		_, err = fmt.Fprintln(p.w, "no record matches")
	case p.count == 0:
		_, err = fmt.Fprintln(p.w, "no records")
	case cursor != "":
		_, err = fmt.Fprintf(p.w, "\n%s; there are more: --all, or --cursor %s\n", records(p.count), cursor)
	default:
		_, err = fmt.Fprintf(p.w, "\n%s\n", records(p.count))
	}
	return err
}

func records(n int) string {
	if n == 1 {
		return "1 record"
	}
	return fmt.Sprintf("%d records", n)
}

// due says when something becomes of a record by itself.
func due(rec onced.Record, now time.Time) string {
	switch rec.State {
	case onced.StateInProgress:
		return "lease ends " + moment(rec.LeaseExpiresAt, now)
	case onced.StateUnknown:
		return "never, until it is settled"
	case onced.StateCompleted:
		return "expires " + moment(rec.ExpiresAt, now)
	case onced.StateExpired:
		return "expired " + moment(rec.ExpiresAt, now)
	}
	return "-"
}

// moment says how far from now i is.
func moment(i onced.Instant, now time.Time) string {
	if d := i.Time().Sub(now); d >= 0 {
		return "in " + span(d)
	}
	return span(now.Sub(i.Time())) + " ago"
}

// span is a length of time in one unit or two.
func span(d time.Duration) string {
	const day = 24 * time.Hour
	two := func(big, small time.Duration, a, b string) string {
		if rest := d % big / small; rest > 0 {
			return fmt.Sprintf("%d%s%d%s", d/big, a, rest, b)
		}
		return fmt.Sprintf("%d%s", d/big, a)
	}
	switch d = max(d, 0); {
	case d >= 10*day:
		return fmt.Sprintf("%dd", d/day)
	case d >= day:
		return two(day, time.Hour, "d", "h")
	case d >= time.Hour:
		return two(time.Hour, time.Minute, "h", "m")
	case d >= time.Minute:
		return two(time.Minute, time.Second, "m", "s")
	}
	return fmt.Sprintf("%ds", d/time.Second)
}

// quoteOdd returns text as it is, or quoted where it has something that a terminal would act on, or
// that would blur a column or look like quotes of ours.
func quoteOdd(text string) string {
	for _, r := range text {
		if r < 0x20 || r == 0x7F || r >= 0x80 && !unicode.IsGraphic(r) {
			return fmt.Sprintf("%q", text)
		}
	}
	if text != strings.TrimSpace(text) || strings.HasPrefix(text, `"`) {
		return fmt.Sprintf("%q", text)
	}
	return text
}
