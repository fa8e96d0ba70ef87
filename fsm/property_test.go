package fsm_test

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"onced"
	"onced/fsm"
	"onced/fsm/command"
	"onced/fsm/memtable"
)

// genCommand draws a command over few keys, owners, tokens and durations, so that they meet.
func genCommand(t *rapid.T) *command.Command {
	id := &command.ID{Tenant: "t", Key: []byte(rapid.SampledFrom([]string{"k", "l"}).Draw(t, "key"))}
	token := rapid.Uint64Range(1, 12).Draw(t, "token")
	owner := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "owner")
	span := rapid.SampledFrom([]int64{1, 5, 20}).Draw(t, "span")
	var answer *command.Response
	if rapid.Bool().Draw(t, "answered") {
		answer = &command.Response{Status: 200, Body: []byte(rapid.SampledFrom([]string{"x", "y"}).Draw(t, "body"))}
	}
	force := rapid.Bool().Draw(t, "force")
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0, 1, 2:
		r := &command.Reserve{Id: id, Fingerprint: []byte(rapid.SampledFrom([]string{"A", "A", "A", "B"}).Draw(t, "fp")), Owner: owner,
			LeaseMs: span, RetentionMs: 10, TombstoneMs: rapid.SampledFrom([]int64{0, 10}).Draw(t, "tombstone"), Retry: rapid.Bool().Draw(t, "retry")}
		if force {
			r.Takeover = token
		}
		return &command.Command{Kind: &command.Command_Reserve{Reserve: r}}
	case 3, 4:
		return &command.Command{Kind: &command.Command_Complete{Complete: &command.Complete{Id: id, Token: token, Response: answer}}}
	case 5:
		return &command.Command{Kind: &command.Command_Release{Release: &command.Release{Id: id, Token: token, RememberMs: span}}}
	case 6:
		return &command.Command{Kind: &command.Command_Cancel{Cancel: &command.Cancel{Id: id, Owner: owner, RememberMs: span}}}
	case 7:
		return &command.Command{Kind: &command.Command_Renew{Renew: &command.Renew{Id: id, Token: token, LeaseMs: span}}}
	case 8:
		return &command.Command{Kind: &command.Command_Resolve{Resolve: &command.Resolve{Id: id, SawToken: token, Response: answer, Force: force}}}
	}
	return &command.Command{Kind: &command.Command_Forget{Forget: &command.Forget{Id: id, SawToken: token, Force: force}}}
}

func apply(t *rapid.T, table *memtable.Table, index uint64, stamp int64, c *command.Command) fsm.Result {
	results, err := fsm.Apply(table, index, &command.Entry{Version: fsm.Version, StampMs: stamp, Commands: []*command.Command{c}})
	if err != nil {
		t.Fatal(err)
	}
	return results[0]
}

// watcher checks what must hold of one key over its whole life.
type watcher struct{ last *fsm.Row }

func (w *watcher) look(t *rapid.T, c *command.Command, r fsm.Result, row *fsm.Row, now int64) {
	before := w.last.StateAt(now)
	switch {
	case before == onced.StateCompleted && row == nil:
		if _, operator := c.Kind.(*command.Command_Forget); !operator {
			t.Fatalf("%v took away a completed record", c)
		}
	case before == onced.StateCompleted && (row.Token != w.last.Token || string(row.Response) != string(w.last.Response)):
		t.Fatalf("%v changed a completed record", c)
	case before == onced.StateInProgress && !w.last.Lapsed(now) && row != nil && row.Token != w.last.Token:
		t.Fatalf("%v gave a live reservation to another", c)
	case before == onced.StateUnknown && row != nil && row.Token != w.last.Token && c.GetReserve().GetTakeover() != w.last.Token:
		t.Fatalf("%v ran an unknown operation again", c)
	}
	if token := holderToken(c); token != 0 && row != w.last && token != w.last.Token {
		t.Fatalf("%v changed a record whose token is %d", c, w.last.Token)
	}
	if r.Outcome >= fsm.OutcomeInProgress && row != w.last {
		t.Fatalf("%v was refused with %v and changed the record", c, r.Outcome)
	}
	w.last = row
}

// TestMachineInvariants drives random commands and checks what must never happen:
// a completed record changed, a live reservation given away, an unknown operation run again on its own, a
// refused command that writes, a token given twice, counts that drift from the rows.
func TestMachineInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		table, now, last := memtable.New(), int64(1000), uint64(0)
		keys := map[string]*watcher{"k": {}, "l": {}}
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += rapid.SampledFrom([]int64{0, 1, 3, 12, 40}).Draw(t, "pause")
			c := genCommand(t)
			key := string(commandID(c).Key)
			r := apply(t, table, uint64(i+1), now, c)
			row, _ := table.Row(scriptID(key))
			keys[key].look(t, c, r, row, now)
			if r.Outcome == fsm.OutcomeReserved {
				if r.Row.Token != last+1 {
					t.Fatalf("token %d after %d", r.Row.Token, last)
				}
				last = r.Row.Token
			}
			checkCounts(t, table)
		}
	})
}

// holderToken is the token that a holder's or an operator's command carries; 0 = it is neither.
func holderToken(c *command.Command) uint64 {
	switch k := c.Kind.(type) {
	case *command.Command_Complete:
		return k.Complete.Token
	case *command.Command_Release:
		return k.Release.Token
	case *command.Command_Renew:
		return k.Renew.Token
	case *command.Command_Resolve:
		return k.Resolve.SawToken
	case *command.Command_Forget:
		return k.Forget.SawToken
	}
	return 0
}

func commandID(c *command.Command) *command.ID {
	switch k := c.Kind.(type) {
	case *command.Command_Reserve:
		return k.Reserve.Id
	case *command.Command_Complete:
		return k.Complete.Id
	case *command.Command_Release:
		return k.Release.Id
	case *command.Command_Cancel:
		return k.Cancel.Id
	case *command.Command_Renew:
		return k.Renew.Id
	case *command.Command_Resolve:
		return k.Resolve.Id
	case *command.Command_Forget:
		return k.Forget.Id
	}
	return nil
}

func checkCounts(t *rapid.T, table *memtable.Table) {
	var want fsm.Counts
	for _, id := range table.IDs() {
		row, _ := table.Row(id)
		want.Keys++
		if !row.Settled() {
			want.Open++
		}
	}
	if got, _ := table.Counts("t"); got != want {
		t.Fatalf("counts are %+v, the rows say %+v", got, want)
	}
}

// TestSweeperDecidesNothing runs the same commands with and without a sweeper that
// sweeps at every step: every answer is the same.
func TestSweeperDecidesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		swept, plain, now := memtable.New(), memtable.New(), int64(1000)
		sweep := &command.Command{Kind: &command.Command_Expire{Expire: &command.Expire{Limit: 10}}}
		for i := range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += rapid.SampledFrom([]int64{0, 1, 3, 12, 40}).Draw(t, "pause")
			c := genCommand(t)
			apply(t, swept, uint64(2*i+1), now, sweep)
			a, b := apply(t, swept, uint64(2*i+2), now, c), apply(t, plain, uint64(i+1), now, c)
			if got, want := fmt.Sprint(a.Outcome, describeIf(a.Row, now)), fmt.Sprint(b.Outcome, describeIf(b.Row, now)); !sameButAnswer(got, want) {
				t.Fatalf("%v: swept: %s; not swept: %s", c, got, want)
			}
		}
	})
}

// sameButAnswer compares two descriptions; a swept tombstone no longer carries its answer.
func sameButAnswer(swept, plain string) bool {
	return swept == plain || len(plain) > len(swept) && plain[:len(swept)] == swept
}

// TestSameEntriesSameHistory replays a log, in one piece and split, through the codec,
// and compares the checksums: equal for equal logs, different once a single write differs.
func TestSameEntriesSameHistory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := memtable.New(), memtable.New()
		now := int64(1000)
		for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
			now += rapid.Int64Range(0, 12).Draw(t, "pause")
			c := genCommand(t)
			apply(t, a, uint64(i+1), now, c)
			data, err := proto.Marshal(&command.Entry{Version: fsm.Version, StampMs: now, Commands: []*command.Command{c}})
			if err != nil {
				t.Fatal(err)
			}
			entry, err := fsm.DecodeEntry(data)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := fsm.Apply(b, uint64(i+1), entry); err != nil {
				t.Fatal(err)
			}
			if a.Meta().History != b.Meta().History {
				t.Fatalf("entry %d: histories differ", i+1)
			}
		}
		forged := &command.Command{Kind: &command.Command_Reserve{Reserve: &command.Reserve{Id: &command.ID{Tenant: "t", Key: []byte("forged")}, Owner: "x", LeaseMs: 1, RetentionMs: 1}}}
		apply(t, a, 1000, now, forged)
		apply(t, b, 1000, now, genCommand(t))
		if a.Meta().History == b.Meta().History {
			t.Fatal("histories are equal after different writes")
		}
	})
}
