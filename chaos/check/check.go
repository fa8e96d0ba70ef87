// Package check judges the history of a round: each function answers one question, and what it finds is wrong
// with the cluster, never with the load.
//
// Invariants:
//
//   - Nothing is asked of the cluster here; what was not noted cannot be judged.
//   - A finding names the key, so that its history can be drawn.
//   - Every check has a history that it finds wrong, in its tests.
package check

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"onced/chaos/history"
	"onced/internal/linear"
)

// Finding is a promise that was broken.
type Finding struct {
	Check string // which check found it
	Key   string // "" where it is about no key
	Text  string
}

func (f Finding) String() string {
	if f.Key == "" {
		return f.Check + ": " + f.Text
	}
	return fmt.Sprintf("%s: %s: %s", f.Check, f.Key, f.Text)
}

// The names of the checks.
const (
	Linearizability = "linearizability" // one order explains every answer of a key
	Executions      = "executions"      // one execution per token, and per key under hold
	Tokens          = "tokens"          // they only grow
	Records         = "records"         // no acknowledged record is lost or changed, on any node
	Tables          = "tables"          // equal checksums
	Committed       = "committed"       // no node shows what was never decided
	Charges         = "charges"         // at the provider, against what clients were told
	Ghosts          = "ghosts"          // after a 503 nothing is left
	Nodes           = "nodes"           // none ends by itself, and all come back
)

// Linear has porcupine order the calls of each key. It returns how many keys it could not decide within their time.
func Linear(calls []porcupine.Operation, perKey time.Duration) (found []Finding, undecided int) {
	illegal, open := linear.Judge(calls, perKey)
	for _, part := range illegal {
		found = append(found, Finding{Linearizability, part[0].Input.(linear.Call).Key, fmt.Sprintf("no order of its %d calls explains the answers", len(part))})
	}
	return found, len(open)
}

// Execution finds tokens that two callers had, and keys that were run twice under hold.
func Execution(b *history.Book) (found []Finding) {
	holder, runs := map[uint64]history.Grant{}, map[string][]uint64{}
	for _, g := range b.Grants {
		if first, ok := holder[g.Token]; ok && (first.Owner != g.Owner || first.Key != g.Key) {
			found = append(found, Finding{Executions, g.Key, fmt.Sprintf("token %d is %s's of %s and %s's of %s", g.Token, first.Owner, first.Key, g.Owner, g.Key)})
		}
		holder[g.Token] = g
		if g.Executed && !g.Retry && !slices.Contains(runs[g.Key], g.Token) {
			runs[g.Key] = append(runs[g.Key], g.Token)
		}
	}
	for _, key := range sorted(runs) {
		if tokens := runs[key]; len(tokens) > 1 {
			found = append(found, Finding{Executions, key, fmt.Sprintf("under hold it was run by tokens %v", tokens)})
		}
	}
	for _, r := range b.Refusals {
		// A release may have been done by a try whose answer was lost, and the key be somebody else's since.
		if !r.Retry && r.Verb != "release" && r.Verb != "cancel" {
			found = append(found, Finding{Executions, r.Key, fmt.Sprintf("under hold the holder of token %d is told %s to its %s", r.Token, r.Code, r.Verb)})
		}
		if r.Verb == "cancel" {
			found = append(found, Finding{Executions, r.Key, "a cancel is told " + r.Code})
		}
	}
	return found
}

// Growing finds tokens that are not larger than one that somebody was told of before they were asked for.
func Growing(b *history.Book) (found []Finding) {
	byEnd := slices.Clone(b.Grants)
	sort.Slice(byEnd, func(i, j int) bool { return byEnd[i].End < byEnd[j].End })
	byBegin := slices.Clone(b.Grants)
	sort.Slice(byBegin, func(i, j int) bool { return byBegin[i].Begin < byBegin[j].Begin })
	var told history.Grant // the one of the largest token that was told so far
	next := 0
	for _, g := range byBegin {
		for ; next < len(byEnd) && byEnd[next].End < g.Begin; next++ {
			if byEnd[next].Token > told.Token {
				told = byEnd[next]
			}
		}
		if g.Token <= told.Token && g.Owner != told.Owner {
			found = append(found, Finding{Tokens, g.Key, fmt.Sprintf("token %d was asked for after %d had been given out, of %s", g.Token, told.Token, told.Key)})
		}
	}
	return found
}

// Kept finds acknowledged completions that a node has lost or changed after everything was healed.
func Kept(b *history.Book) (found []Finding) {
	acked := map[string]history.Completion{}
	for _, c := range b.Completions {
		if c.Acked {
			acked[c.Key] = c
		}
	}
	for _, f := range b.Finals {
		c, ok := acked[f.Key]
		switch {
		case !ok:
		case f.State != "completed":
			found = append(found, Finding{Records, f.Key, fmt.Sprintf("its completion by token %d was acknowledged, and %s says that it is %s", c.Token, f.Node, f.State)})
		case f.Token != c.Token || f.Body != c.Body:
			found = append(found, Finding{Records, f.Key, fmt.Sprintf("acknowledged were %q and token %d, and %s has %q and token %d", c.Body, c.Token, f.Node, f.Body, f.Token)})
		}
	}
	return found
}

// Shown finds records that a node showed and that were never decided: a token of two owners, an answer that nobody
// sent, a reservation that went to somebody else.
func Shown(b *history.Book) (found []Finding) {
	type holder struct{ key, owner string }
	holders := map[uint64]holder{}
	sent := map[string]bool{} // key, token and body
	for _, g := range b.Grants {
		holders[g.Token] = holder{g.Key, g.Owner}
	}
	bodies := map[string]bool{} // key and body
	for _, c := range b.Completions {
		sent[fmt.Sprint(c.Key, "\n", c.Token, "\n", c.Body)] = true
		bodies[c.Key+"\n"+c.Body] = true
	}
	look := func(key, state, owner, body, node string, token uint64) {
		if token != 0 {
			h, ok := holders[token]
			if ok && (h.key != key || h.owner != owner) {
				found = append(found, Finding{Committed, key, fmt.Sprintf("%s shows token %d as %s's; it is %s's of %s", node, token, owner, h.owner, h.key)})
			}
			holders[token] = holder{key, owner}
		}
		if state != "completed" {
			return
		}
		if ok := sent[fmt.Sprint(key, "\n", token, "\n", body)]; !ok && (token != 0 || !bodies[key+"\n"+body]) {
			found = append(found, Finding{Committed, key, fmt.Sprintf("%s shows the answer %q of token %d, which nobody sent", node, body, token)})
		}
	}
	for _, s := range b.Sights {
		look(s.Key, s.State, s.Owner, s.Body, s.Node, s.Token)
	}
	for _, f := range b.Finals {
		if f.State != "absent" {
			look(f.Key, f.State, f.Owner, f.Body, f.Node, f.Token)
		}
	}
	return found
}

// Charged compares the provider's charges with what the clients were told: of is the ids of a key's charges. An id
// that is told must be in the answer's text in quotes.
func Charged(b *history.Book, of func(key string) []string) (found []Finding) {
	told := map[string]string{}
	seen := map[string]bool{}
	for _, t := range b.Tellings {
		ids := of(t.Key)
		if !seen[t.Key] && len(ids) > 1 {
			found = append(found, Finding{Charges, t.Key, fmt.Sprintf("it was charged %d times: %s", len(ids), strings.Join(ids, ", "))})
		}
		seen[t.Key] = true
		if t.Code != "" {
			continue
		}
		if len(ids) == 0 || !slices.ContainsFunc(ids, func(id string) bool { return strings.Contains(t.Body, `"`+id+`"`) }) {
			found = append(found, Finding{Charges, t.Key, fmt.Sprintf("a client was told %q; the provider has charges %v", t.Body, ids)})
		}
		if first, ok := told[t.Key]; ok && first != t.Body {
			found = append(found, Finding{Charges, t.Key, fmt.Sprintf("two clients were told %q and %q", first, t.Body)})
		}
		told[t.Key] = t.Body
	}
	return found
}

// Ghostly finds reservations that were left by reserves that ended in 503, but for those of nodes that did not live on
// to cancel them: life tells how often a node has been started by now.
func Ghostly(b *history.Book, life func(node string) int) (found []Finding) {
	left := map[string]history.Final{}
	for _, f := range b.Finals {
		if f.State != "absent" {
			left[f.Key] = f
		}
	}
	for _, o := range b.Orphans {
		if f, ok := left[o.Key]; ok && life(o.Node) == o.Life {
			found = append(found, Finding{Ghosts, o.Key, fmt.Sprintf("%s answered 503, and it is %s by token %d", o.Node, f.State, f.Token)})
		}
	}
	return found
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
