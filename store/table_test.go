package store

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"onced"
	"onced/fsm"
)

func TestTxSeesItsWritesAndTheTableOnlyAfterCommit(t *testing.T) {
	d := mustOpenMem(t, vfs.NewMem())
	a := id("t", "s", "a")
	tx := d.Table().Begin()
	if row, err := tx.Row(a); row != nil || err != nil {
		t.Fatalf("Row of nothing = %v, %v", row, err)
	}
	first, second := running(1), completed(1, 500, "x")
	tx.PutRow(a, nil, first)
	tx.PutRow(a, first, second)
	tx.PutCounts("t", fsm.Counts{Keys: 1})
	tx.PutCancel(a, "owner", 0, 70)
	tx.PutMeta(fsm.Meta{Clock: 9, LastToken: 1, ClusterID: "c", History: 1 << 63, MarkIndex: 3, MarkHistory: 4})
	if row, _ := tx.Row(a); row != second {
		t.Errorf("the transaction does not see its own row: %v", row)
	}
	if until, _ := tx.Cancelled(a, "owner"); until != 70 {
		t.Errorf("the transaction does not see its own cancel: %d", until)
	}
	if row, _ := d.Table().Row(a); row != nil {
		t.Errorf("the table shows a row before Commit: %v", row)
	}
	if err := tx.Commit(7, 2); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]onced.ID{a}, tx.Touched()); diff != "" {
		t.Errorf("Touched: %s", diff)
	}
	row, err := d.Table().Row(a)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(second, row); diff != "" {
		t.Errorf("the row after Commit: %s", diff)
	}
	if d.Table().Applied() != 7 || d.Table().AppliedTerm() != 2 || d.Table().Meta().ClusterID != "c" || d.Table().Meta().History != 1<<63 {
		t.Errorf("state after Commit: %+v", d.Table().state.Load())
	}
	if c, _ := d.Table().Counts("t"); c.Keys != 1 {
		t.Errorf("counts after Commit: %+v", c)
	}
	if until, _ := d.Table().Begin().Cancelled(a, "owner"); until != 70 {
		t.Errorf("cancel after Commit: %d", until)
	}
}

func TestDueIsInOrderAndRefusedAfterWrites(t *testing.T) {
	d := mustOpenMem(t, vfs.NewMem())
	ids := []onced.ID{id("t", "", "b"), id("t", "", "a"), id("s", "z", "a"), id("t", "", "ab")}
	commit(t, d.Table(), 1, func(tx *Tx) {
		for _, i := range ids {
			tx.PutRow(i, nil, completed(1, 500, "")) // due at 1500
		}
		tx.PutCancel(ids[1], "me", 0, 1500)
		tx.PutCancel(ids[1], "early", 0, 20)
		tx.PutRow(id("t", "", "later"), nil, completed(1, 501, ""))
		tx.PutRow(id("t", "", "hold"), nil, running(3)) // never due
	})
	want := []fsm.DueItem{
		{At: 20, ID: ids[1], Owner: "early"}, {At: 1500, ID: ids[2]}, {At: 1500, ID: ids[1]}, {At: 1500, ID: ids[1], Owner: "me"}, {At: 1500, ID: ids[3]}, {At: 1500, ID: ids[0]},
	}
	tx := d.Table().Begin()
	for _, limit := range []int{0, 1, 6, 100} {
		got, err := tx.Due(1500, limit)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want[:min(limit, len(want))], got, cmp.Transformer("nil", func(s []fsm.DueItem) string { return fmt.Sprint(s) })); diff != "" {
			t.Errorf("limit %d: %s", limit, diff)
		}
	}
	if at, ok, err := d.Table().NextDue(); at != 20 || !ok || err != nil {
		t.Errorf("NextDue = %d, %v, %v", at, ok, err)
	}
	tx.PutCancel(ids[1], "early", 20, 0)
	if _, err := tx.Due(1500, 1); err == nil {
		t.Error("Due after a write was not refused")
	}
	if err := tx.Commit(2, 1); err != nil {
		t.Fatal(err)
	}
	if at, _, _ := d.Table().NextDue(); at != 1500 {
		t.Errorf("NextDue after the first was forgotten = %d", at)
	}
	// A floor that was raised must come down for an earlier item.
	if items, _ := d.Table().Begin().Due(1400, 10); len(items) != 0 {
		t.Errorf("due before 1400: %v", items)
	}
	commit(t, d.Table(), 3, func(tx *Tx) { tx.PutCancel(ids[0], "new", 0, 30) })
	if at, _, _ := d.Table().NextDue(); at != 30 {
		t.Errorf("NextDue after an earlier item was put = %d", at)
	}
}

func TestCommitRefuses(t *testing.T) {
	d := mustOpenMem(t, vfs.NewMem())
	fill(t, d.Table(), 1, 3)
	for name, tc := range map[string]struct {
		index uint64
		put   func(*Tx)
		want  string
	}{
		"an index that is in":    {3, func(*Tx) {}, "the table is at 3 already"},
		"a zero byte in a key":   {4, func(tx *Tx) { tx.PutRow(id("t", "", "a\x00b"), nil, running(1)) }, "is no id"},
		"no tenant":              {4, func(tx *Tx) { tx.PutRow(id("", "", "a"), nil, running(1)) }, "is no id"},
		"a cancel of no one":     {4, func(tx *Tx) { tx.PutCancel(id("t", "", "a"), "", 0, 5) }, "has no owner"},
		"a zero byte in a scope": {4, func(tx *Tx) { tx.PutCancel(id("t", "\x00", "a"), "o", 0, 5) }, "is no id"},
	} {
		tx := d.Table().Begin()
		tc.put(tx)
		if err := tx.Commit(tc.index, 1); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, expected %q", name, err, tc.want)
		}
	}
	checkFilled(t, d.Table(), 4)
}

// model is the table as plain maps.
type model struct {
	rows    map[onced.ID]*fsm.Row
	cancels map[txOwner]int64
	counts  map[string]fsm.Counts
}

func (m model) due() []fsm.DueItem {
	var items []fsm.DueItem
	for id, row := range m.rows {
		if at := row.Due(); at != 0 {
			items = append(items, fsm.DueItem{At: at, ID: id})
		}
	}
	for c, until := range m.cancels {
		items = append(items, fsm.DueItem{At: until, ID: c.id, Owner: c.owner})
	}
	slices.SortFunc(items, func(a, b fsm.DueItem) int {
		if a.At != b.At {
			return int(a.At - b.At)
		}
		return slices.Compare([]string{a.ID.Tenant, a.ID.Scope, string(a.ID.Key), a.Owner}, []string{b.ID.Tenant, b.ID.Scope, string(b.ID.Key), b.Owner})
	})
	return items
}

func (m model) ids(tenant string, take func(onced.ID, *fsm.Row) bool) []onced.ID {
	ids := slices.DeleteFunc(slices.Collect(maps.Keys(m.rows)), func(id onced.ID) bool {
		return tenant != "" && id.Tenant != tenant || !take(id, m.rows[id])
	})
	slices.SortFunc(ids, func(a, b onced.ID) int {
		return slices.Compare([]string{a.Tenant, a.Scope, string(a.Key)}, []string{b.Tenant, b.Scope, string(b.Key)})
	})
	return ids
}

func drawRow(rt *rapid.T) *fsm.Row {
	row := &fsm.Row{
		Phase: fsm.Phase(rapid.IntRange(1, 4).Draw(rt, "phase")), Retry: rapid.Bool().Draw(rt, "retry"),
		Token: rapid.Uint64Range(1, 9).Draw(rt, "token"), Retention: 10, Tombstone: 10,
		CreatedAt: 5, LeaseUntil: rapid.Int64Range(5, 60).Draw(rt, "lease"), CompletedAt: rapid.Int64Range(5, 60).Draw(rt, "completed"),
	}
	if row.Phase == fsm.PhaseCompleted {
		row.Response = []byte(strings.Repeat("x", rapid.IntRange(0, 50).Draw(rt, "body")))
	}
	return row
}

func TestTableIsAModelOfMaps(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		fs := vfs.NewMem()
		d, err := openMem(t, fs, noFatal(t), nil)
		if err != nil {
			rt.Fatal(err)
		}
		defer func() { mustClose(t, d) }()
		m := model{map[onced.ID]*fsm.Row{}, map[txOwner]int64{}, map[string]fsm.Counts{}}
		tenants, scopes, keys, owners := []string{"t", "t1", "u"}, []string{"", "a", "a b"}, []onced.Key{"k", "k1", "k 1", "z"}, []string{"o", "p\x00q"}
		drawID := rapid.Custom(func(rt *rapid.T) onced.ID {
			return onced.ID{Tenant: rapid.SampledFrom(tenants).Draw(rt, "tenant"), Scope: rapid.SampledFrom(scopes).Draw(rt, "scope"), Key: rapid.SampledFrom(keys).Draw(rt, "key")}
		})
		for index := uint64(1); index < 12; index++ {
			tx := d.Table().Begin()
			if due, err := tx.Due(40, 100); err != nil {
				rt.Fatal(err)
			} else if diff := cmp.Diff(slices.DeleteFunc(m.due(), func(i fsm.DueItem) bool { return i.At > 40 }), due, cmp.Transformer("s", func(s []fsm.DueItem) string { return fmt.Sprint(s) })); diff != "" {
				rt.Fatalf("due: %s", diff)
			}
			for range rapid.IntRange(0, 8).Draw(rt, "writes") {
				i := drawID.Draw(rt, "id")
				switch rapid.IntRange(0, 3).Draw(rt, "what") {
				case 0:
					owner := rapid.SampledFrom(owners).Draw(rt, "owner")
					old, err := tx.Cancelled(i, owner)
					if err != nil || old != m.cancels[txOwner{i, owner}] {
						rt.Fatalf("Cancelled = %d, %v; expected %d", old, err, m.cancels[txOwner{i, owner}])
					}
					until := rapid.Int64Range(0, 60).Draw(rt, "until")
					tx.PutCancel(i, owner, old, until)
					m.cancels[txOwner{i, owner}] = until
					if until == 0 {
						delete(m.cancels, txOwner{i, owner})
					}
				case 1:
					c, err := tx.Counts(i.Tenant)
					if err != nil || c != m.counts[i.Tenant] {
						rt.Fatalf("Counts = %v, %v; expected %v", c, err, m.counts[i.Tenant])
					}
					c.Keys = rapid.Int64Range(0, 2).Draw(rt, "keys")
					tx.PutCounts(i.Tenant, c)
					m.counts[i.Tenant] = c
				default:
					old, err := tx.Row(i)
					if err != nil {
						rt.Fatal(err)
					}
					if diff := cmp.Diff(m.rows[i], old); diff != "" {
						rt.Fatalf("Row: %s", diff)
					}
					var row *fsm.Row
					if rapid.Bool().Draw(rt, "put") {
						row = drawRow(rt)
						m.rows[i] = row
					} else {
						delete(m.rows, i)
					}
					tx.PutRow(i, old, row)
				}
			}
			if err := tx.Commit(index, 1); err != nil {
				rt.Fatal(err)
			}
			switch rapid.IntRange(0, 5).Draw(rt, "then") {
			case 0:
				if err := d.Table().Flush(); err != nil {
					rt.Fatal(err)
				}
			case 1:
				mustClose(t, d)
				if d, err = openMem(t, fs, noFatal(t), nil); err != nil {
					rt.Fatal(err)
				}
			}
			checkModel(rt, d.Table(), m)
		}
	})
}

// checkModel compares the whole read side with the model.
func checkModel(rt *rapid.T, table *Table, m model) {
	next, ok, err := table.NextDue()
	due := m.due()
	if err != nil || ok != (len(due) > 0) || ok && next != due[0].At {
		rt.Fatalf("NextDue = %d, %v, %v; expected the first of %v", next, ok, err, due)
	}
	var open []onced.ID
	err = table.OpenRows(func(r OpenRow) error {
		if diff := cmp.Diff(m.rows[r.ID], r.Row); diff != "" {
			rt.Fatalf("open row: %s", diff)
		}
		open = append(open, r.ID)
		return nil
	})
	if want := m.ids("", func(_ onced.ID, r *fsm.Row) bool { return !r.Settled() }); err != nil || !slices.Equal(open, want) {
		rt.Fatalf("OpenRows: %v, %v; expected %v", open, err, want)
	}
	q := ListQuery{
		Tenant: rapid.SampledFrom([]string{"t", "t1", "u", "none"}).Draw(rt, "list tenant"),
		Prefix: rapid.SampledFrom([]string{"", "k", "k1", "y"}).Draw(rt, "prefix"),
		Open:   rapid.Bool().Draw(rt, "open"), Limit: rapid.IntRange(1, 3).Draw(rt, "limit"), Work: rapid.IntRange(1, 3).Draw(rt, "work"),
	}
	if rapid.Bool().Draw(rt, "one scope") {
		scope := rapid.SampledFrom([]string{"", "a", "none"}).Draw(rt, "list scope")
		q.Scope = &scope
	}
	if rapid.Bool().Draw(rt, "match") {
		q.Match = func(r *fsm.Row) bool { return r.Token > 4 }
	}
	want := m.ids(q.Tenant, func(id onced.ID, r *fsm.Row) bool {
		return (q.Scope == nil || *q.Scope == id.Scope) && strings.HasPrefix(string(id.Key), q.Prefix) && (!q.Open || !r.Settled()) && (q.Match == nil || q.Match(r))
	})
	if got := listAll(rt, table, q); !slices.Equal(got, want) {
		rt.Fatalf("List %+v: %v, expected %v", q, got, want)
	}
}

func listAll(t rapid.TB, table *Table, q ListQuery) []onced.ID {
	var got []onced.ID
	for range 200 {
		page, err := table.List(q)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Rows) > q.Limit {
			t.Fatalf("a page of %d rows, the limit is %d", len(page.Rows), q.Limit)
		}
		for _, r := range page.Rows {
			got = append(got, r.ID)
		}
		if !page.More {
			return got
		}
		q.After = page.Next
	}
	t.Fatalf("List does not end: %+v", q)
	return nil
}

// TestCrashLeavesAWholePrefix loses power at random moments of a busy table: what is left is
// the state at some applied index, not less than that of the last Flush.
func TestCrashLeavesAWholePrefix(t *testing.T) {
	for seed := range uint64(12) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			fs := vfs.NewCrashableMem()
			d := mustOpenMem(t, fs)
			var flushed uint64
			const entries = 60
			crashAt := 1 + rng.Uint64N(entries)
			var after *vfs.MemFS
			for i := uint64(1); i <= entries; i++ {
				commit(t, d.Table(), i, func(tx *Tx) {
					tx.PutRow(id("t", "", fmt.Sprintf("key-%d", i)), nil, completed(i, int64(i), "body"))
					size := 1 << 10
					if rng.IntN(8) == 0 {
						size = 200 << 10 // larger than half a memtable: Pebble takes another way
					}
					tx.PutRow(id("t", "big", "same"), nil, completed(i, int64(i), strings.Repeat("x", size)))
					m := tx.Meta()
					m.LastToken = i
					tx.PutMeta(m)
				})
				if rng.IntN(10) == 0 {
					if err := d.Table().Flush(); err != nil {
						t.Fatal(err)
					}
					flushed = i
				}
				if i == crashAt {
					after = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: int(seed%3) * 40, RNG: rng})
					break
				}
			}
			again := mustOpenMem(t, after)
			if got := again.Table().Applied(); got < flushed || got > crashAt {
				t.Errorf("after the crash the table is at %d; %d was flushed, %d committed", got, flushed, crashAt)
			}
			checkFilled(t, again.Table(), entries)
			if row, _ := again.Table().Row(id("t", "big", "same")); row != nil && row.Token != again.Table().Applied() {
				t.Errorf("the large row is of entry %d, the index says %d", row.Token, again.Table().Applied())
			}
		})
	}
}
