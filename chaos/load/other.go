package load

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"onced/chaos/history"
)

// orphan reserves keys of its own without an owner, which the node then makes. What is refused by 503 must leave
// nothing.
func (l *Load) orphan(ctx context.Context, id int, chance *rand.Rand) {
	for n := 0; ctx.Err() == nil; n++ {
		key := fmt.Sprintf("%s-orphan-%d-%d", l.Round, id, n)
		seat := chance.IntN(len(l.Doors.APIs))
		node, life := l.Doors.Who(seat)
		asked, hangUp := context.WithTimeout(context.Background(), 10*time.Second)
		a := l.send(asked, http.MethodPost, l.Doors.APIs[seat]+l.path(key, "reserve"), nil, object{"fingerprint": "f", "lease": "3s"})
		hangUp()
		switch s := a.said(); {
		case a.err != nil:
		case a.status == http.StatusServiceUnavailable && s.Code == "unavailable":
			l.Book.Note(func(b *history.Book) {
				b.Orphans = append(b.Orphans, history.Orphan{Key: key, Node: node, Life: life, At: l.Book.Now()})
			})
		case a.status == http.StatusCreated:
			now := l.Book.Now()
			l.Book.Wrote()
			l.saw(history.Sight{Key: key, Token: s.Token, Owner: s.Owner, State: "in_progress", Node: node, At: now})
		}
		rest(ctx, 10*time.Millisecond+upTo(chance, 40*time.Millisecond))
	}
}

// stare reads what any node has in its own table, of keys that others are at work with.
func (l *Load) stare(ctx context.Context, _ int, chance *rand.Rand) {
	for ctx.Err() == nil {
		seat := chance.IntN(len(l.Doors.APIs))
		kind := []string{"hold", "again"}[chance.IntN(2)]
		l.issued.mu.Lock()
		last := l.issued.last
		l.issued.mu.Unlock()
		key := fmt.Sprintf("%s-%s-%d", l.Round, kind, max(1, last-chance.IntN(2*recentKeys)))
		node, _ := l.Doors.Who(seat)
		asked, hangUp := context.WithTimeout(context.Background(), 500*time.Millisecond)
		a := l.send(asked, http.MethodGet, l.Doors.APIs[seat]+l.path(key, "")+"?stale=true", nil, nil)
		hangUp()
		if s := a.said(); a.err == nil && a.status == http.StatusOK {
			l.saw(history.Sight{Key: key, Token: s.Token, Owner: s.Owner, State: s.State, Body: s.Response.Body, Node: node, At: l.Book.Now()})
		}
		rest(ctx, upTo(chance, 20*time.Millisecond))
	}
}
