package check

import (
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"onced/chaos/history"
	"onced/internal/linear"
)

// good is a history without a fault.
func good() *history.Book {
	b := &history.Book{
		Grants: []history.Grant{
			{Key: "a", Owner: "x", Token: 1, Executed: true, Begin: 0, End: 10},
			{Key: "b", Owner: "y", Token: 2, Retry: true, Executed: true, Begin: 20, End: 30},
			{Key: "b", Owner: "z", Token: 3, Retry: true, Executed: true, Begin: 40, End: 50},
			{Key: "c", Owner: "v", Token: 4, Begin: 60, End: 70},
			{Key: "c", Owner: "w", Token: 5, Executed: true, Begin: 80, End: 90},
		},
		Completions: []history.Completion{{Key: "a", Token: 1, Body: "A"}, {Key: "a", Token: 1, Body: "A", Acked: true}, {Key: "c", Token: 5, Body: "C"}},
		Refusals:    []history.Refusal{{Key: "b", Token: 2, Verb: "complete", Code: "stale_token", Retry: true}},
		Sights:      []history.Sight{{Key: "a", State: "completed", Body: "A"}, {Key: "c", Token: 5, Owner: "w", State: "in_progress"}},
		Orphans:     []history.Orphan{{Key: "o", Node: "n1", Life: 1}},
		Tellings:    []history.Telling{{Key: "g", Body: `{"charge":"ch_1"}`}, {Key: "g", Body: `{"charge":"ch_1"}`, Replayed: true}, {Key: "h", Code: "outcome_unknown"}},
	}
	for _, node := range []string{"n1", "n2", "n3"} {
		b.Finals = append(b.Finals, history.Final{Key: "a", Node: node, State: "completed", Token: 1, Owner: "x", Body: "A"},
			history.Final{Key: "o", Node: node, State: "absent"})
	}
	return b
}

var charges = map[string][]string{"g": {"ch_1"}, "h": {"ch_2"}}

// judge runs every check but Linear.
func judge(b *history.Book, charges map[string][]string) (found []Finding) {
	found = append(found, Execution(b)...)
	found = append(found, Growing(b)...)
	found = append(found, Kept(b)...)
	found = append(found, Shown(b)...)
	found = append(found, Charged(b, func(key string) []string { return charges[key] })...)
	return append(found, Ghostly(b, func(string) int { return 1 })...)
}

func TestChecksFail(t *testing.T) {
	if found := judge(good(), charges); len(found) > 0 {
		t.Fatalf("a good history: %v", found)
	}
	for name, h := range map[string]struct {
		check string
		spoil func(*history.Book)
	}{
		"a token of two owners":        {Executions, func(b *history.Book) { b.Grants[3].Token = 1 }},
		"run twice under hold":         {Executions, func(b *history.Book) { b.Grants[3].Executed = true }},
		"a holder loses it under hold": {Executions, func(b *history.Book) { b.Refusals[0].Retry = false }},
		"a cancel is refused":          {Executions, func(b *history.Book) { b.Refusals[0].Verb = "cancel" }},
		"a token that does not grow":   {Tokens, func(b *history.Book) { b.Grants[1].Token = 1 << 40 }},
		"a lost record":                {Records, func(b *history.Book) { b.Finals[2].State = "absent" }},
		"a record that is open again":  {Records, func(b *history.Book) { b.Finals[2].State = "in_progress" }},
		"a changed record":             {Records, func(b *history.Book) { b.Finals[4].Body = "B" }},
		"another token's record":       {Records, func(b *history.Book) { b.Finals[0].Token = 7 }},
		"a replay that nobody sent":    {Committed, func(b *history.Book) { b.Sights[0].Body = "Z" }},
		"somebody else's reservation":  {Committed, func(b *history.Book) { b.Sights[1].Owner = "v" }},
		"an answer without an effect":  {Charges, func(b *history.Book) { b.Tellings[0].Body = `{"charge":"ch_9"}` }},
		"two answers":                  {Charges, func(b *history.Book) { b.Tellings[1].Body = `{"charge":"ch_1","again":1}` }},
		"an answer of no charge":       {Charges, func(b *history.Book) { b.Tellings[2] = history.Telling{Key: "i", Body: `{"charge":"ch_1"}`} }},
		"a ghost":                      {Ghosts, func(b *history.Book) { b.Finals[1].State = "unknown" }},
	} {
		t.Run(name, func(t *testing.T) {
			b := good()
			h.spoil(b)
			found := judge(b, charges)
			if len(found) == 0 || !strings.Contains(names(found), h.check) {
				t.Errorf("expected %s: %v", h.check, found)
			}
		})
	}
	if found := judge(good(), map[string][]string{"g": {"ch_1", "ch_3"}, "h": nil}); len(found) != 1 || found[0].Check != Charges {
		t.Errorf("a double charge: %v", found)
	}
	b := good()
	b.Finals[1].State = "unknown"
	if found := Ghostly(b, func(string) int { return 2 }); len(found) > 0 {
		t.Errorf("the node died before it could cancel: %v", found)
	}
}

func names(found []Finding) string {
	var all []string
	for _, f := range found {
		all = append(all, f.Check)
	}
	return strings.Join(all, " ")
}

func TestLinear(t *testing.T) {
	reserve := func(key, owner string, token uint64, begin, end int64) porcupine.Operation {
		return linear.Operation(1, linear.Call{Verb: linear.Reserve, Key: key, Owner: owner, Begin: begin, End: end},
			linear.Answer{Outcome: "reserved", Owner: owner, Token: token, Attempt: 1})
	}
	found, undecided := Linear([]porcupine.Operation{reserve("good", "a", 1, 0, 1), reserve("bad", "a", 2, 2, 3), reserve("bad", "b", 3, 4, 5)}, time.Minute)
	if undecided != 0 || len(found) != 1 || found[0].Key != "bad" {
		t.Errorf("%v, %d undecided", found, undecided)
	}
}

func TestGaps(t *testing.T) {
	writes := []int64{400, 100, 110, 900, 910}
	gaps := Gaps(writes, []history.Window{
		{Fault: "kill", From: 105, Until: 500}, {Fault: "kill", From: 100, Until: 110}, {Fault: "cut + kill", From: 905, Until: 2000},
	})
	mixed := Pauses{1, 1095, 1090, 1090}
	want := []Gap{{"cut", Pauses{}, mixed}, {"kill", Pauses{2, 10, 10, 500}, mixed}}
	if len(gaps) != 2 || gaps[0] != want[0] || gaps[1] != want[1] {
		t.Errorf("%v, expected %v", gaps, want)
	}
}
