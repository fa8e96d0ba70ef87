// Package history is what is remembered of a round: who asked what, who was told what, and when. It is all
// that the checks look at, and what a failed run keeps.
//
// Invariants:
//
//   - Times are nanoseconds since the run began, of the one monotonic clock of this process.
//   - A call is noted with what its caller was told, nothing else: what a caller was not told, nobody was promised.
//   - A Book takes notes from everywhere at once; whoever reads it does so when nobody writes any more.
package history

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"onced/internal/linear"
)

// Grant is a reservation that a caller was told that it has.
type Grant struct {
	Key      string `json:"key"`
	Owner    string `json:"owner"`
	Token    uint64 `json:"token"`
	Retry    bool   `json:"retry,omitempty"` // on_lapse; else hold
	Executed bool   `json:"executed"`        // the caller ran the operation
	Begin    int64  `json:"begin"`
	End      int64  `json:"end"`
}

// Completion is a complete: sent at least, or acknowledged too.
type Completion struct {
	Key   string `json:"key"`
	Token uint64 `json:"token"`
	Body  string `json:"body"`
	Acked bool   `json:"acked"`
	At    int64  `json:"at"`
}

// Refusal is what a holder was told whose reservation was not the one in force.
type Refusal struct {
	Key   string `json:"key"`
	Token uint64 `json:"token"`
	Verb  string `json:"verb"`
	Code  string `json:"code"`
	Retry bool   `json:"retry,omitempty"`
	At    int64  `json:"at"`
}

// Sight is a record, or a replay, as a node showed it.
type Sight struct {
	Key   string `json:"key"`
	Token uint64 `json:"token,omitempty"` // 0 in a replay, which does not tell it
	Owner string `json:"owner,omitempty"`
	State string `json:"state"`
	Body  string `json:"body,omitempty"`
	Node  string `json:"node,omitempty"`
	At    int64  `json:"at"`
}

// Orphan is a reserve, without an owner of the caller's, that was refused by 503: nothing of it may stay.
type Orphan struct {
	Key  string `json:"key"`
	Node string `json:"node"` // that said so
	Life int    `json:"life"` // how often that node had been started
	At   int64  `json:"at"`
}

// Telling is what a client of a gateway was told in the end.
type Telling struct {
	Key      string `json:"key"`
	Body     string `json:"body,omitempty"` // of an answer of the provider's
	Code     string `json:"code,omitempty"` // of a problem; "" with an answer
	Replayed bool   `json:"replayed,omitempty"`
	At       int64  `json:"at"`
}

// Final is what a node says of a key after everything was healed.
type Final struct {
	Key   string `json:"key"`
	Node  string `json:"node"`
	State string `json:"state"` // absent where there is no record
	Token uint64 `json:"token,omitempty"`
	Owner string `json:"owner,omitempty"`
	Body  string `json:"body,omitempty"`
	At    int64  `json:"at"`
}

// Window is a fault, from its first act until the cluster was well again.
type Window struct {
	Fault string `json:"fault"` // names, see check.Together
	Text  string `json:"text"`  // what was done to whom
	From  int64  `json:"from"`
	Until int64  `json:"until"`
}

// Book is what happened in a round.
type Book struct {
	Calls       []porcupine.Operation // of the keys whose whole history is judged
	Grants      []Grant
	Completions []Completion
	Refusals    []Refusal
	Sights      []Sight
	Orphans     []Orphan
	Tellings    []Telling
	Writes      []int64 // when a write was acknowledged
	Windows     []Window
	Finals      []Final

	mu    sync.Mutex
	begun time.Time
	calls int // of every kind
}

// NewBook returns an empty Book of a run that began at a time.
func NewBook(begun time.Time) *Book { return &Book{begun: begun} }

// Now is the time in a Book.
func (b *Book) Now() int64 { return int64(time.Since(b.begun)) }

// Note changes the Book.
func (b *Book) Note(change func(*Book)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change(b)
}

// Wrote notes a write that was acknowledged now.
func (b *Book) Wrote() {
	at := b.Now()
	b.Note(func(b *Book) { b.Writes = append(b.Writes, at) })
}

// Called counts a call that was sent.
func (b *Book) Called() { b.Note(func(b *Book) { b.calls++ }) }

// Count is how many calls were sent.
func (b *Book) Count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls
}

// Harmed is how often the cluster was harmed and healed.
func (b *Book) Harmed() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.Windows)
}

// Keep writes the Book into a directory, one file of JSON lines for each kind.
func (b *Book) Keep(dir string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	calls := make([]any, len(b.Calls))
	for i, op := range b.Calls {
		calls[i] = struct {
			Client int `json:"client"`
			linear.Call
			Told linear.Answer `json:"told"`
		}{op.ClientId, op.Input.(linear.Call), op.Output.(linear.Answer)}
	}
	for name, lines := range map[string][]any{
		"calls": calls, "grants": anyOf(b.Grants), "completions": anyOf(b.Completions), "refusals": anyOf(b.Refusals), "sights": anyOf(b.Sights),
		"orphans": anyOf(b.Orphans), "tellings": anyOf(b.Tellings), "windows": anyOf(b.Windows), "finals": anyOf(b.Finals),
	} {
		if err := writeLines(filepath.Join(dir, name+".jsonl"), lines); err != nil {
			return fmt.Errorf("keeping the history: %w", err)
		}
	}
	return nil
}

func anyOf[T any](list []T) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = v
	}
	return out
}

func writeLines(path string, lines []any) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	to := json.NewEncoder(f)
	for _, line := range lines {
		if err := to.Encode(line); err != nil {
			return err
		}
	}
	return f.Close()
}
