package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
)

// held is what the cluster holds of a key at the end.
type held struct {
	state   string // completed, unknown, in_progress; "" = the cluster knows nothing of it
	answer  answer
	problem error // the cluster could not be asked
}

// recordJSON are the members of a record that are looked at.
type recordJSON struct {
	State    string `json:"state"`
	Response struct {
		Status  int         `json:"status"`
		Headers [][2]string `json:"headers"`
		Body    string      `json:"body"`
	} `json:"response"`
}

// readBack asks the nodes, in turn, for the record of every key of the plan.
func readBack(ctx context.Context, h *http.Client, nodes []string, p plan, concurrency int) []held {
	all := make([]held, p.keys)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range concurrency {
		workers.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= p.keys {
					return
				}
				all[i] = readKey(ctx, h, nodes, p.key(i), i)
			}
		})
	}
	workers.Wait()
	return all
}

// readKey asks the nodes, beginning with number at, until one knows.
func readKey(ctx context.Context, h *http.Client, nodes []string, key string, at int) held {
	var last error
	for try := range 3 * len(nodes) {
		node := nodes[(at+try)%len(nodes)]
		got, err := getRecord(ctx, h, node, key)
		if err == nil {
			return got
		}
		last = err
		if sleep(ctx, pause) != nil {
			break
		}
	}
	return held{problem: last}
}

func getRecord(ctx context.Context, h *http.Client, node, key string) (held, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, node+"/v1/keys/"+url.PathEscape(key), nil)
	if err != nil {
		return held{}, fmt.Errorf("making the request: %w", err)
	}
	r.Header.Set("Onced-Tenant", Account)
	response, err := h.Do(r)
	if err != nil {
		return held{}, err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusNotFound:
		return held{}, nil
	case http.StatusOK:
	default:
		return held{}, fmt.Errorf("reading %s from %s: status %d", key, node, response.StatusCode)
	}
	var record recordJSON
	if err := json.NewDecoder(response.Body).Decode(&record); err != nil {
		return held{}, fmt.Errorf("reading %s from %s: %w", key, node, err)
	}
	got := held{state: record.State, answer: answer{status: record.Response.Status, body: record.Response.Body}}
	for _, header := range record.Response.Headers {
		if http.CanonicalHeaderKey(header[0]) == "Location" {
			got.answer.location = header[1]
		}
	}
	return got, nil
}

// verdict is the judgement over one execution.
type verdict struct {
	charges int
	doubles int // keys charged more than once
	// Of the requests that reused a key for another amount:
	reused, conflicts int
	// Of the keys whose outcome the cluster calls unknown:
	unknownCharged, unknownNot int
	faults                     []string // what must never be; each one sentence
}

// maxFaults bounds how many faults are told one by one.
const maxFaults = 10

func (v *verdict) fault(format string, args ...any) {
	v.faults = append(v.faults, fmt.Sprintf(format, args...))
}

// judge holds the clients' answers and the cluster's records against the
// provider's charges. all is nil where no cluster was in the way: then only the
// charges are counted.
func judge(p plan, results []result, provider counter, all []held) verdict {
	provider.Settle()
	v := verdict{charges: provider.Total(), doubles: len(provider.Doubles())}
	if all == nil {
		return v
	}
	byKey := make([][]result, p.keys)
	for i, r := range results {
		byKey[p.steps[i].key] = append(byKey[p.steps[i].key], r)
	}
	for i := range p.keys {
		v.judgeKey(p.key(i), p.order(i), byKey[i], provider.Of(p.key(i)), all[i])
	}
	return v
}

func (v *verdict) judgeKey(key string, o order, results []result, charges []string, h held) {
	if len(charges) > 1 {
		v.fault("%s was charged %d times: %v", key, len(charges), charges)
	}
	told := false
	for _, r := range results {
		switch r.ending {
		case answered:
			told = true
			v.checkAnswer(key, o, charges, "a client", r.answer)
		case refused, gaveUp:
			v.fault("%s: a client never got its answer (%s)", key, r.reason)
		}
	}
	switch {
	case h.problem != nil:
		v.fault("%s could not be read at the end: %v", key, h.problem)
	case h.state == "completed":
		v.checkAnswer(key, o, charges, "the table", h.answer)
	case told:
		v.fault("%s is lost: a client has its answer, and the table says %q", key, h.state)
	case h.state == "unknown" && len(charges) > 0:
		v.unknownCharged++
	case h.state == "unknown":
		v.unknownNot++
	default:
		v.fault("%s is neither completed nor unknown at the end: the table says %q", key, h.state)
	}
}

// judgeReuse counts the conflicts among requests that reused a key for another amount. Any other answer is a fault.
func (v *verdict) judgeReuse(p plan, results []result) {
	v.reused = len(results)
	for i, r := range results {
		if r.ending == refused && r.code == "idempotency_conflict" {
			v.conflicts++
			continue
		}
		v.fault("%s was sent for another amount and not refused as a conflict: %s %s", p.key(p.steps[i].key), r.answer, r.reason)
	}
}

// checkAnswer holds one answer against what the provider said to the only charge of key.
func (v *verdict) checkAnswer(key string, o order, charges []string, who string, got answer) {
	if len(charges) == 0 {
		v.fault("%s: %s has an answer (%q), but it was never charged", key, who, got.body)
		return
	}
	want := answer{http.StatusCreated, "/charges/" + charges[0], string(chargeBody(charges[0], o))}
	if got != want {
		v.fault("%s: %s has another answer than the first: %s instead of %s", key, who, got, want)
	}
}

// unknowns is the number of keys whose outcome nobody can tell.
func (v verdict) unknowns() int { return v.unknownCharged + v.unknownNot }
