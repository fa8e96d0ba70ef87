package load

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"onced/chaos/history"
	"onced/internal/linear"
)

// kind is a way in which the keys of a whole history are used.
type kind struct {
	name      string
	epoch     time.Duration // after which the clients turn to other keys
	keys      int           // at once
	lease     time.Duration // 0 = does not end within the round
	retention time.Duration
	retry     bool
	weight    int // how often it is chosen
}

var kinds = []kind{
	{name: "long", epoch: 250 * time.Millisecond, keys: 3, weight: 6},
	{name: "brief", epoch: 2500 * time.Millisecond, keys: 2, lease: 300 * time.Millisecond, retention: time.Second, weight: 2},
	{name: "retry", epoch: 2500 * time.Millisecond, keys: 2, lease: 300 * time.Millisecond, retry: true, weight: 2},
}

// known is which tokens anybody was told of a key, in their order.
type known struct {
	mu     sync.Mutex
	tokens map[string][]uint64
	owner  int
}

// all does everything with a few keys at a time, through any node, each call once: their whole histories are
// judged.
func (l *Load) all(ctx context.Context, id int, chance *rand.Rand) {
	for ctx.Err() == nil {
		k := choose(chance)
		epoch := l.Book.Now() / int64(k.epoch)
		c := l.pick(k, fmt.Sprintf("%s-%s-%d-%d", l.Round, k.name, epoch, chance.IntN(k.keys)), chance)
		told := l.ask(c, chance.IntN(len(l.Doors.APIs)), 50*time.Millisecond+upTo(chance, time.Second), &c)
		l.note(id, c, told)
		pause := upTo(chance, 20*time.Millisecond)
		if told.Lost {
			pause += 100 * time.Millisecond // calls that are lost cost the judge most
		}
		rest(ctx, pause)
	}
}

func choose(chance *rand.Rand) kind {
	sum := 0
	for _, k := range kinds {
		sum += k.weight
	}
	at := chance.IntN(sum)
	for _, k := range kinds {
		if at -= k.weight; at < 0 {
			return k
		}
	}
	return kinds[0]
}

// pick chooses a call. Owners are repeated now and then, and tokens are taken from whoever was told one.
func (l *Load) pick(k kind, key string, chance *rand.Rand) linear.Call {
	l.known.mu.Lock()
	defer l.known.mu.Unlock()
	c := linear.Call{Key: key, Lease: k.lease, Retention: k.retention, Retry: k.retry}
	known := l.known.tokens[key]
	dice := chance.IntN(100)
	switch {
	case len(known) == 0 || dice < 35:
		c.Verb = linear.Reserve
		if l.known.owner++; chance.IntN(3) == 0 {
			l.known.owner -= min(l.known.owner-1, chance.IntN(4))
		}
		c.Owner = fmt.Sprintf("o%d", l.known.owner)
		if chance.IntN(8) == 0 {
			c.Verb = linear.Cancel
		}
		return c
	case dice < 60:
		c.Verb = linear.Get
		return c
	}
	c.Token = known[len(known)-1]
	if chance.IntN(5) == 0 {
		c.Token = known[chance.IntN(len(known))]
	}
	switch dice := chance.IntN(16); {
	case dice < 3:
		c.Verb, c.Body = linear.Complete, fmt.Sprintf("answer %d", chance.IntN(2))
	case dice == 3:
		c.Verb = linear.Unknown
	case dice < 9:
		c.Verb = linear.Release
	default:
		c.Verb = linear.Renew
	}
	return c
}

// ask sends c to a seat, waits for as long as patience, and notes when.
func (l *Load) ask(c linear.Call, seat int, patience time.Duration, timed *linear.Call) linear.Answer {
	ctx, hangUp := context.WithTimeout(context.Background(), patience)
	defer hangUp()
	method, verb, body := http.MethodPost, string(c.Verb), object{"token": c.Token}
	switch c.Verb {
	case linear.Get:
		method, verb = http.MethodGet, ""
	case linear.Reserve:
		body = object{"fingerprint": "f", "owner": c.Owner, "lease": cmp.Or(c.Lease, 24*time.Hour).String(),
			"retention": cmp.Or(c.Retention, 24*time.Hour).String()}
		if c.Retry {
			body["on_lapse"] = "retry"
		}
	case linear.Complete:
		body["response"] = object{"status": 200, "body": c.Body}
	case linear.Unknown:
		verb, body["outcome"] = "complete", "unknown"
	case linear.Cancel:
		verb, body = "release", object{"owner": c.Owner}
	}
	var sent any = body
	if method == http.MethodGet {
		sent = nil
	}
	timed.Begin = l.Book.Now()
	a := l.send(ctx, method, l.Doors.APIs[seat]+l.path(c.Key, verb), nil, sent)
	timed.End = l.Book.Now()
	if a.undecided() {
		return linear.Answer{Lost: true}
	}
	s := a.said()
	outcome := s.Code
	if outcome == "" {
		outcome = cmp.Or(s.Outcome, "ok")
	}
	return linear.Answer{Outcome: outcome, State: s.State, Token: s.Token, Owner: s.Owner, Attempt: s.Attempt, Repeated: s.Repeated, Body: s.Response.Body}
}

func (l *Load) note(id int, c linear.Call, told linear.Answer) {
	if told.Lost && c.Verb == linear.Get {
		return // it says nothing
	}
	if !told.Lost && c.Verb != linear.Get && (told.Outcome == "ok" || told.Outcome == "reserved") {
		l.Book.Wrote()
	}
	l.Book.Note(func(b *history.Book) { b.Calls = append(b.Calls, linear.Operation(id, c, told)) })
	if told.Token == 0 {
		return
	}
	l.known.mu.Lock()
	defer l.known.mu.Unlock()
	if l.known.tokens == nil {
		l.known.tokens = map[string][]uint64{}
	}
	if known := l.known.tokens[c.Key]; len(known) == 0 || told.Token > known[len(known)-1] {
		l.known.tokens[c.Key] = append(known, told.Token)
	}
}
