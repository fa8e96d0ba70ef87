package picture

import (
	"fmt"
	"time"

	"github.com/anishathalye/porcupine"

	"onced/chaos/history"
	"onced/internal/linear"
)

// orderTime is how long an order is looked for.
const orderTime = 20 * time.Second

// OfKey gathers what a Book has of a key.
func OfKey(b *history.Book, key string) (bars []Bar) {
	bars = calls(b, key)
	for _, g := range b.Grants {
		if g.Key == key {
			text := fmt.Sprintf("reserve owner %s → reserved token %d", g.Owner, g.Token)
			if g.Executed {
				text += ", and run"
			}
			bars = append(bars, Bar{Lane: g.Owner, Begin: g.Begin, End: g.End, Short: fmt.Sprint("reserved ", g.Token), Text: text, Mark: Done})
		}
	}
	for _, c := range b.Completions {
		if c.Key != key {
			continue
		}
		bar := Bar{Lane: fmt.Sprint("token ", c.Token), Begin: c.At, End: c.At, Short: "complete", Text: fmt.Sprintf("complete token %d %q is sent", c.Token, c.Body), Mark: Seen}
		if c.Acked {
			bar.Text, bar.Mark = fmt.Sprintf("complete token %d %q → ok", c.Token, c.Body), Done
		}
		bars = append(bars, bar)
	}
	for _, r := range b.Refusals {
		if r.Key == key {
			bars = append(bars, Bar{Lane: fmt.Sprint("token ", r.Token), Begin: r.At, End: r.At, Short: r.Code, Text: fmt.Sprintf("%s token %d → %s", r.Verb, r.Token, r.Code), Mark: Refused})
		}
	}
	for _, s := range b.Sights {
		if s.Key == key {
			bars = append(bars, Bar{Lane: "seen on " + s.Node, Begin: s.At, End: s.At, Short: s.State, Text: fmt.Sprintf("it is shown as %s token %d owner %s %q", s.State, s.Token, s.Owner, s.Body), Mark: Seen})
		}
	}
	return append(bars, rest(b, key)...)
}

// rest is what is known of the keys of reserves that were refused, and of charges.
func rest(b *history.Book, key string) (bars []Bar) {
	for _, o := range b.Orphans {
		if o.Key == key {
			bars = append(bars, Bar{Lane: "client", Begin: o.At, End: o.At, Short: "503", Text: fmt.Sprintf("reserve at %s → 503 unavailable", o.Node), Mark: Refused})
		}
	}
	for _, t := range b.Tellings {
		if t.Key != key {
			continue
		}
		bar := Bar{Lane: "client", Begin: t.At, End: t.At, Short: "charged", Text: "charge → " + t.Body, Mark: Done}
		if t.Code != "" {
			bar.Short, bar.Text, bar.Mark = t.Code, "charge → "+t.Code, Refused
		}
		bars = append(bars, bar)
	}
	for _, f := range b.Finals {
		if f.Key == key {
			bars = append(bars, Bar{Lane: "after healing, " + f.Node, Begin: f.At, End: f.At, Short: f.State, Text: fmt.Sprintf("it is %s token %d owner %s %q", f.State, f.Token, f.Owner, f.Body), Mark: Seen})
		}
	}
	return bars
}

// calls are those whose order is judged, with their places in the longest order that porcupine finds.
func calls(b *history.Book, key string) (bars []Bar) {
	var part []porcupine.Operation
	for _, op := range b.Calls {
		if op.Input.(linear.Call).Key == key {
			part = append(part, op)
		}
	}
	if len(part) == 0 {
		return nil
	}
	result, info := porcupine.CheckOperationsVerbose(linear.Model, part, orderTime)
	places := map[int]int{}
	for _, orders := range info.PartialLinearizations() {
		for _, order := range orders {
			if len(order) <= len(places) {
				continue
			}
			clear(places)
			for i, id := range order {
				places[id] = i + 1
			}
		}
	}
	odd := -1
	if result == porcupine.Illegal {
		odd = breaks(part, places)
	}
	for id, op := range part {
		c, a := op.Input.(linear.Call), op.Output.(linear.Answer)
		bar := Bar{Lane: fmt.Sprintf("client %02d", op.ClientId), Begin: c.Begin, End: c.End, Short: string(c.Verb), Text: linear.Describe(c, a), Mark: Done, Place: places[id]}
		bar.Odd = id == odd
		switch {
		case a.Lost:
			bar.Mark = Lost
		case c.Verb == linear.Get:
			bar.Mark = Seen
		case a.Outcome != "ok" && a.Outcome != "reserved":
			bar.Mark = Refused
		}
		bars = append(bars, bar)
	}
	return bars
}

// breaks is the call at which the longest order ends: of those without a place the one that was answered first. No
// later one has a place either, since it may not come before this one.
func breaks(part []porcupine.Operation, places map[int]int) int {
	first := -1
	for id, op := range part {
		if places[id] == 0 && !op.Output.(linear.Answer).Lost && (first < 0 || op.Return < part[first].Return) {
			first = id
		}
	}
	return first
}
