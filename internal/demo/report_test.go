package demo

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPercentiles(t *testing.T) {
	var took []time.Duration
	for i := range 100 {
		took = append(took, time.Duration(100-i)*time.Millisecond)
	}
	if p := percentilesOf(took); p.p50 != 50*time.Millisecond || p.p99 != 99*time.Millisecond {
		t.Errorf("%+v", p)
	}
	if p := percentilesOf([]time.Duration{5}); p.p50 != 5 || p.p99 != 5 {
		t.Errorf("%+v", p)
	}
	if p := percentilesOf(nil); p.String() != "none" {
		t.Errorf("%+v", p)
	}
}

func exampleReport() *report {
	ms := time.Millisecond
	return &report{
		options: Options{Keys: 8000, Repeats: 4000},
		with: outcome{
			tally{requests: 12000, lost: 2000, replayed: 3990, unique: percentiles{6000, 35 * ms, 52 * ms}, repeats: percentiles{4000, 1200 * time.Microsecond, 33 * ms},
				retries: map[string]int{"connection lost": 21, "request_in_progress": 30}, took: 6100 * ms},
			verdict{charges: 8000, reused: 80, conflicts: 80, unknownCharged: 6, unknownNot: 1},
		},
		without: outcome{
			tally{requests: 12000, lost: 2000, unique: percentiles{6000, 31 * ms, 33 * ms}, repeats: percentiles{4000, 31 * ms, 33 * ms}, took: 5900 * ms},
			verdict{charges: 12000, doubles: 4000},
		},
		kill: &failover{killed: "n1", next: "n3", after: 6000, newLeader: 640 * ms, back: 2100 * ms},
	}
}

func TestTable(t *testing.T) {
	var b strings.Builder
	if err := exampleReport().write(&b); err != nil {
		t.Fatal(err)
	}
	want := `
                                  with onced         without
   keys                                8,000           8,000
   requests                           12,000          12,000
   answers lost on purpose             2,000           2,000
   answers replayed                    3,990               0
   charges                             8,000          12,000
   keys charged twice                      0           4,000
   conflicts refused                80 of 80    nobody looks
   unique  p50 / p99           35 ms / 52 ms   31 ms / 33 ms
   repeats p50 / p99          1.2 ms / 33 ms   31 ms / 33 ms
   sent again on advice                   51               0
   outcomes unknown                        7    nobody looks
   time                                6.1 s           5.9 s

Conflicts: at the end 80 keys were sent again for another amount, beside the requests above.
Times run from a request's first send to its answer, repeats and pauses on the way included.
Killed: n1, the leader, with SIGKILL after 6,000 requests; n3 led 640ms later, n1 was back after 2.1s.
Sent again, with the same key: 21 connection lost, 30 request_in_progress.
Unknown, for 7 keys: the node was killed between sending the charge and storing its answer. The provider made 6 of these charges,
once, and 1 not at all. onced cannot know which, says so (outcome_unknown) and never sends one a second time.

With onced no key was charged twice and no stored answer was lost; without it 4,000 keys were charged twice or more.
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

func TestFailedReport(t *testing.T) {
	r := exampleReport()
	r.with.verdict.doubles = 1
	for range maxFaults + 2 {
		r.with.verdict.fault("k was charged 2 times")
	}
	var b strings.Builder
	r.write(&b)
	if !strings.Contains(b.String(), "FAILED: 1 key was charged twice") || !strings.Contains(b.String(), "and 2 more") {
		t.Error(b.String())
	}
}
