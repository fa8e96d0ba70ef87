package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
	"unicode/utf8"

	"onced"
)

// shownBody is how many bytes of a body a table shows.
const shownBody = 4 << 10

// recordTable is one record for people.
func recordTable(rec onced.Record, now time.Time) string {
	var b strings.Builder
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(t, "%s\t%s\n", name, value)
		}
	}
	date := func(name string, i onced.Instant) {
		if i != 0 {
			row(name, i.Time().Format("2006-01-02 15:04:05 UTC")+" ("+moment(i, now)+")")
		}
	}
	row("key", quoteOdd(string(rec.Key)))
	row("scope", quoteOdd(rec.Scope))
	row("tenant", rec.Tenant)
	row("state", rec.State.String())
	if rec.State != onced.StateAbsent {
		row("attempt", fmt.Sprint(rec.Attempt))
		row("token", fmt.Sprint(uint64(rec.Token)))
		row("owner", quoteOdd(rec.Owner))
		row("fingerprint", quoteOdd(rec.Fingerprint))
		date("created", rec.CreatedAt)
		date("lease ends", rec.LeaseExpiresAt)
		date("completed", rec.CompletedAt)
		date("expires", rec.ExpiresAt)
	}
	if rec.Response != nil {
		row("response", responseLine(rec.Response))
	}
	t.Flush()
	if rec.Response != nil {
		writeResponse(&b, rec.Response)
	}
	return b.String()
}

func responseLine(r *onced.Response) string {
	switch {
	case r.BodyOmitted && r.Reference != "":
		return fmt.Sprintf("status %d, its body is kept at %s", r.Status, quoteOdd(r.Reference))
	case r.BodyOmitted:
		return fmt.Sprintf("status %d, its body was not kept", r.Status)
	}
	return fmt.Sprintf("status %d, body of %d bytes", r.Status, len(r.Body))
}

// writeResponse writes the headers and as much of the body as a person wants to see.
func writeResponse(b *strings.Builder, r *onced.Response) {
	if len(r.Headers) > 0 {
		b.WriteString("\n")
	}
	for _, h := range r.Headers {
		fmt.Fprintf(b, "%s: %s\n", quoteOdd(h.Name), quoteOdd(h.Value))
	}
	switch {
	case len(r.Body) == 0:
	case !printable(r.Body):
		b.WriteString("\n(the body is not text: --output json has it)\n")
	case len(r.Body) > shownBody:
		cut := shownBody
		for !utf8.RuneStart(r.Body[cut]) {
			cut--
		}
		fmt.Fprintf(b, "\n%s\n(%d bytes more: --output json has them)\n", r.Body[:cut], len(r.Body)-cut)
	default:
		fmt.Fprintf(b, "\n%s\n", strings.TrimSuffix(string(r.Body), "\n"))
	}
}

// printable tells whether body is text that a terminal shows as it is.
func printable(body []byte) bool {
	if !utf8.Valid(body) {
		return false
	}
	for _, r := range string(body) {
		if r != '\n' && r != '\t' && r != '\r' && !unicode.IsGraphic(r) {
			return false
		}
	}
	return true
}
