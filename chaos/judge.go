//go:build linux

package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"onced"
	"onced/chaos/check"
	"onced/chaos/history"
	"onced/chaos/load"
	"onced/client"
)

const (
	orderTime = 20 * time.Second // for porcupine, of one key
	readers   = 16               // at once, of each node
	// fewFailures is after how many keys that a node does not give it is asked for no more.
	fewFailures = 3
	// lapsed is how long after its end a round's leases are over.
	lapsed = 3500 * time.Millisecond
)

// judge heals what is left, waits until the cluster is quiet, and runs every check on the round's history.
func (c *campaign) judge(ctx context.Context, clients *load.Load) (found []check.Finding) {
	book := clients.Book
	odd, remarks := c.cluster.Odd()
	c.remarks = remarks // they are of all that was ever said
	for _, text := range odd {
		found = append(found, check.Finding{Check: check.Nodes, Text: text})
	}
	if len(found) > 0 {
		return append(found, c.order(book)...)
	}
	if err := c.cluster.Quiet(ctx, 30*time.Second); err != nil {
		found = append(found, check.Finding{Check: check.Nodes, Text: "after healing: " + err.Error()})
	}
	if len(book.Orphans) > 0 {
		time.Sleep(lapsed) // what a ghost would leave is then unknown
	}
	clients.Repeat()
	charged, err := c.charged(ctx)
	if err != nil {
		found = append(found, check.Finding{Check: check.Charges, Text: err.Error()})
	}
	found = append(found, c.tables(ctx)...)
	found = append(found, c.read(ctx, book)...)
	found = append(found, check.Execution(book)...)
	found = append(found, check.Growing(book)...)
	found = append(found, check.Kept(book)...)
	found = append(found, check.Shown(book)...)
	if err == nil {
		found = append(found, check.Charged(book, charged)...)
	}
	found = append(found, check.Ghostly(book, c.life)...)
	return append(found, c.order(book)...)
}

// charged returns what tells the charges of a key, once nothing is under way.
func (c *campaign) charged(ctx context.Context) (func(key string) []string, error) {
	if c.Compose {
		ctx, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		ledger, err := c.cluster.Ledger(ctx)
		if err != nil {
			return nil, err
		}
		return ledger.Of, nil
	}
	c.provider.Settle()
	return c.provider.Of, nil
}

// order has porcupine judge the keys whose whole history is known.
func (c *campaign) order(book *history.Book) []check.Finding {
	found, undecided := check.Linear(book.Calls, orderTime)
	keys := map[string]bool{}
	for _, g := range book.Grants {
		keys[g.Key] = true
	}
	sum := c.sums[c.cluster.LogStore]
	sum.undecided += undecided
	sum.judged.add(tally{Ordered: len(book.Calls), Keys: len(keys), Grants: len(book.Grants), Sights: len(book.Sights), Charges: len(book.Tellings), Orphans: len(book.Orphans)})
	return found
}

// life is how often a node was started, 0 for one that was removed.
func (c *campaign) life(id string) int {
	for _, n := range c.cluster.Nodes() {
		if n.ID == id {
			return n.Lives()
		}
	}
	return 0
}

// tables compares the checksums of all tables.
func (c *campaign) tables(ctx context.Context) (found []check.Finding) {
	keeper, err := c.keeper(c.cluster.APIs())
	if err != nil {
		return []check.Finding{{Check: check.Nodes, Text: err.Error()}}
	}
	defer keeper.Close(ctx)
	// An entry that every table takes note of: raft keeps some of its own entries to itself.
	if err := keeper.Release(ctx, onced.ReleaseRequest{ID: onced.ID{Key: "settled"}, Owner: fmt.Sprint("nobody", c.rounds)}); err != nil {
		return []check.Finding{{Check: check.Nodes, Text: "nothing can be written after healing: " + err.Error()}}
	}
	histories, err := c.cluster.Histories(ctx, 30*time.Second)
	if err != nil {
		return []check.Finding{{Check: check.Tables, Text: err.Error()}}
	}
	for _, h := range histories {
		if h.Checksum != histories[0].Checksum {
			found = append(found, check.Finding{Check: check.Tables, Text: fmt.Sprintf("at entry %d the checksum of %s is %x, and that of %s %x",
				h.Index, h.Node, h.Checksum, histories[0].Node, histories[0].Checksum)})
		}
	}
	return found
}

func (c *campaign) keeper(nodes []string) (*client.Client, error) {
	return client.New(client.Config{Nodes: nodes, Tenant: "default", Timeout: 10 * time.Second, TryTimeout: 3 * time.Second})
}

// read reads every completed key, and every one that nothing may be left of, on every node: from its own table,
// which by now has everything.
func (c *campaign) read(ctx context.Context, book *history.Book) (found []check.Finding) {
	keys := map[string]bool{}
	for _, done := range book.Completions {
		keys[done.Key] = true
	}
	for _, o := range book.Orphans {
		keys[o.Key] = true
	}
	c.sums[c.cluster.LogStore].judged.Records += len(keys)
	for _, n := range c.cluster.Nodes() {
		keeper, err := c.keeper([]string{n.API})
		if err != nil {
			return append(found, check.Finding{Check: check.Nodes, Text: err.Error()})
		}
		todo := make(chan string)
		var reading sync.WaitGroup
		var failed atomic.Int32
		for range readers {
			reading.Go(func() {
				for key := range todo {
					if failed.Load() >= fewFailures {
						continue // each takes its time, and says the same
					}
					final, err := final(ctx, keeper, n.ID, key)
					book.Note(func(b *history.Book) {
						final.At = b.Now()
						if b.Finals = append(b.Finals, final); err != nil {
							failed.Add(1)
							found = append(found, check.Finding{Check: check.Records, Key: key, Text: fmt.Sprintf("%s cannot read it: %v", n.ID, err)})
							b.Finals = b.Finals[:len(b.Finals)-1]
						}
					})
				}
			})
		}
		for key := range keys {
			todo <- key
		}
		close(todo)
		reading.Wait()
		keeper.Close(ctx)
	}
	return found
}

// final is what a node has of a key.
func final(ctx context.Context, keeper onced.Keeper, node, key string) (history.Final, error) {
	rec, err := keeper.Get(ctx, onced.GetRequest{ID: onced.ID{Key: onced.Key(key)}, Stale: true})
	switch {
	case onced.CodeOf(err) == onced.CodeKeyNotFound:
		return history.Final{Key: key, Node: node, State: "absent"}, nil
	case err != nil:
		return history.Final{}, err
	}
	f := history.Final{Key: key, Node: node, State: rec.State.String(), Token: uint64(rec.Token), Owner: rec.Owner}
	if rec.Response != nil {
		f.Body = string(rec.Response.Body)
		if rec.Response.Status != http.StatusOK {
			f.Body = fmt.Sprintf("status %d", rec.Response.Status)
		}
	}
	return f, nil
}
