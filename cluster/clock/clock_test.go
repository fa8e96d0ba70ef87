package clock

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

const (
	hour = int64(3_600_000)
	noon = int64(1_800_000_000_000) // the right time, ms
)

// bench is a Clock on a hand-turned monotonic clock.
type bench struct {
	*Clock
	mono time.Duration
}

func newBench() *bench {
	b := &bench{}
	b.Clock = New(Config{Mono: func() time.Duration { return b.mono }})
	return b
}

// walls are answers of nodes that have heard no leader.
func walls(ms ...int64) []Answer {
	var answers []Answer
	for _, m := range ms {
		answers = append(answers, Answer{Wall: m})
	}
	return answers
}

func (b *bench) now(t *testing.T) int64 {
	t.Helper()
	now, leading := b.Now()
	if !leading {
		t.Fatal("the clock does not lead")
	}
	return now
}

func TestLeadBegins(t *testing.T) {
	for _, tc := range []struct {
		name    string
		table   int64
		answers []int64
		voters  int
		want    int64
	}{
		{"all agree", noon - 50, []int64{noon, noon, noon}, 3, noon},
		{"leader an hour ahead", noon - 50, []int64{noon + hour, noon, noon}, 3, noon},
		{"leader an hour behind", noon - 50, []int64{noon - hour, noon, noon}, 3, noon},
		{"follower an hour ahead", noon - 50, []int64{noon, noon + hour, noon}, 3, noon},
		{"follower an hour behind", noon - 50, []int64{noon, noon - hour, noon}, 3, noon},
		{"one missing, other ahead", noon - 50, []int64{noon, noon + hour}, 3, noon},
		{"one missing, leader ahead", noon - 50, []int64{noon + hour, noon}, 3, noon},
		{"one missing, other behind", noon - 50, []int64{noon, noon - hour}, 3, noon - 50},
		{"own answer only", noon - 50, []int64{noon + hour}, 3, noon - 50},
		{"no answer", noon - 50, nil, 3, noon - 50},
		{"all down for two hours", noon - 2*hour, []int64{noon, noon + 3, noon + 9}, 3, noon + 3},
		{"table ahead", noon + hour, []int64{noon, noon, noon}, 3, noon + hour},
		{"cluster of one", noon - hour, []int64{noon}, 1, noon},
		{"four answers, one ahead", noon - 50, []int64{noon, noon + 2, noon + hour, noon + 1}, 4, noon + 1},
		{"five, two missing", noon - 50, []int64{noon + hour, noon + 1, noon}, 5, noon + 1},
		{"nonsense is no answer", noon - 50, []int64{noon, -5, 1 << 60}, 3, noon - 50},
		{"empty table", 0, []int64{noon, noon, noon}, 3, noon},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench()
			b.mono = 77 * time.Second
			got, ok := b.Lead(1, tc.table, walls(tc.answers...), tc.voters)
			if !ok || got != tc.want || b.now(t) != tc.want {
				t.Fatalf("Lead = %d, %v (off by %d ms), Now = %d", got, ok, got-tc.want, b.now(t))
			}
			b.mono += 90 * time.Second
			if got := b.now(t); got != tc.want+90_000 {
				t.Errorf("90 s later it is %d ms later", got-tc.want)
			}
		})
	}
}

func TestCheckSlews(t *testing.T) {
	for _, tc := range []struct {
		name    string
		answers []int64 // relative to the clock
		voters  int
		checked bool
		after   int64 // what 10 s are on the clock, ms
	}{
		{"all agree", []int64{0, 0, 0}, 3, true, 10_000},
		{"one wrong changes nothing", []int64{0, hour, 0}, 3, true, 10_000},
		{"median an hour ahead", []int64{hour, hour, 0}, 3, true, 10_100},
		{"median an hour behind", []int64{-hour, -hour, 0}, 3, true, 9_900},
		{"a little ahead", []int64{40, 40, 40}, 3, true, 10_040},
		{"a little behind", []int64{-40, -40, -40}, 3, true, 9_960},
		{"two of three, one ahead", []int64{0, hour}, 3, true, 10_000},
		{"two of three, one behind", []int64{0, -hour}, 3, true, 9_900},
		{"no majority", []int64{hour}, 3, false, 10_000},
		{"half is no majority", []int64{hour, hour}, 4, false, 10_000},
		{"cluster of one", []int64{hour}, 1, true, 10_100},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench()
			b.Lead(1, noon, walls(noon, noon, noon), 3)
			b.mono += 5 * time.Second
			before := b.now(t)
			for i := range tc.answers {
				tc.answers[i] += before
			}
			if _, ok := b.Check(1, walls(tc.answers...), tc.voters); ok != tc.checked {
				t.Fatalf("Check = %v", ok)
			}
			if got := b.now(t); got != before {
				t.Errorf("the check itself moved the clock by %d ms", got-before)
			}
			b.mono += 10 * time.Second
			if got := b.now(t) - before; got != tc.after {
				t.Errorf("10 s are %d ms, want %d", got, tc.after)
			}
		})
	}
}

// A correction ends when it is worked off, however often it is checked on the way.
func TestCorrectionConverges(t *testing.T) {
	b := newBench()
	b.Lead(1, noon, walls(noon), 1)
	for range 200 {
		right := noon + b.mono.Milliseconds() + 10_000 // ten seconds behind
		b.Check(1, walls(right, right, right), 3)
		b.mono += 10 * time.Second
	}
	if off := noon + b.mono.Milliseconds() + 10_000 - b.now(t); off < -1 || off > 1 {
		t.Errorf("2,000 s later the clock is still off by %d ms", off)
	}
}

func TestTerms(t *testing.T) {
	b := newBench()
	if _, leading := b.Now(); leading {
		t.Fatal("a new clock leads")
	}
	b.Saw(noon + 7)
	if now, leading := b.Now(); leading || now != noon+7 {
		t.Fatalf("Now = %d, %v", now-noon, leading)
	}
	if start, _ := b.Lead(5, noon, nil, 3); start != noon+7 {
		t.Errorf("the term begins %d ms before a stamp that was seen", noon+7-start)
	}
	for _, term := range []uint64{4, 5} {
		if _, ok := b.Lead(term, noon+hour, nil, 3); ok {
			t.Errorf("term %d began after term 5", term)
		}
	}
	b.Resign(4)
	b.now(t)
	if _, ok := b.Check(4, walls(noon), 1); ok {
		t.Error("a check of another term was taken")
	}
	b.Resign(5)
	if _, leading := b.Now(); leading {
		t.Error("it leads after resigning")
	}
	if _, ok := b.Check(5, walls(noon), 1); ok {
		t.Error("a check was taken after resigning")
	}
	b.mono += time.Minute
	if start, ok := b.Lead(6, noon, nil, 3); !ok || start != noon+7 {
		t.Errorf("term 6 begins %d ms after the last stamp, %v", start-noon-7, ok)
	}
}

// A stamp ahead of the clock moves it, and time goes on from there.
func TestSawWhileLeading(t *testing.T) {
	b := newBench()
	b.Lead(1, noon, nil, 3)
	b.Saw(noon + hour)
	b.Saw(noon + 3)
	b.mono += 2 * time.Second
	if got := b.now(t); got != noon+hour+2000 {
		t.Errorf("it is %d ms after noon", got-noon)
	}
}

// Whatever the answers, a clock that leads neither goes back, nor stops, nor leaps.
func TestRateIsBounded(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		b := newBench()
		last, _ := b.Lead(1, noon, walls(noon, noon), 3)
		for range 200 {
			switch rng.IntN(3) {
			case 0:
				wild := noon + rng.Int64N(4*hour) - 2*hour
				b.Check(1, walls(wild, wild+rng.Int64N(hour), wild), 3)
			case 1:
				b.Saw(last - rng.Int64N(1000))
			}
			step := time.Duration(rng.Int64N(int64(5 * time.Second)))
			b.mono += step
			now := b.now(t)
			ran, ms := now-last, step.Milliseconds()
			if ran < ms*99/100-2 || ran > ms*101/100+2 {
				t.Fatalf("seed %d: %d ms became %d ms", seed, ms, ran)
			}
			last = now
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	c := New(Config{})
	c.Lead(1, noon, walls(c.Wall()), 1)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			last := int64(0)
			for i := range 500 {
				now, _ := c.Now()
				if now < last {
					t.Errorf("time went back by %d ms", last-now)
					return
				}
				last = now
				c.Saw(now + int64(i%3))
				c.Check(1, walls(now+int64(g)), 1)
			}
		})
	}
	wg.Wait()
}

// TestTimeGoesOnAcrossTerms: while some process remembers a leader's time, a new term goes on from there. A
// clock that is an hour off, ahead or behind, in front of it or not, neither makes it jump nor holds it back.
func TestTimeGoesOnAcrossTerms(t *testing.T) {
	const idle = 20 * time.Minute
	for _, off := range []int64{hour, -hour} {
		old := newBench()
		old.Lead(1, noon, walls(noon, noon, noon), 3)
		heir := newBench()
		heir.Saw(noon)
		heir.Heard(1, noon)
		heir.mono = idle
		start, _ := heir.Lead(2, noon, []Answer{{noon + idle.Milliseconds(), heir.Answer().Floor, 1}, {Wall: noon + idle.Milliseconds() + off}}, 3)
		if passed := start - noon; passed > idle.Milliseconds() || passed < idle.Milliseconds()*98/100 {
			t.Errorf("other clock off by %d ms: %d ms went by between the terms, %d by the monotonic clock", off, passed, idle.Milliseconds())
		}
		late := newBench() // lagged so far; its clock and the others' are right now
		late.Heard(1, noon)
		if start, _ := late.Lead(3, noon, []Answer{{noon + hour, late.Answer().Floor, 1}, {Wall: noon + hour}, {Wall: noon + hour}}, 3); start != noon {
			t.Errorf("a running cluster's time jumps by %d ms at a term's start", start-noon)
		}
	}
}

// TestFloorIsNeverAhead: whatever a leader's time does within its bounds, the floor of who heard it stays behind.
func TestFloorIsNeverAhead(t *testing.T) {
	leader, follower := newBench(), newBench()
	leader.Lead(1, noon, walls(noon), 1)
	leader.Check(1, walls(noon-hour), 1) // as slow as it can be
	for range 1000 {
		follower.Heard(1, leader.now(t))
		step := time.Duration(rand.Int64N(int64(time.Minute)))
		leader.mono += step
		follower.mono += step
		if floor, now := follower.Answer().Floor, leader.now(t); floor > now {
			t.Fatalf("the floor is %d ms ahead", floor-now)
		}
	}
	if newBench().Answer().Floor != 0 {
		t.Error("who has heard no leader has a floor")
	}
}

// TestTheLatestLeaderCounts: a leader that knew less than others goes on from what it knew. Who heard
// the one before it does not make a later term jump to where that one was.
func TestTheLatestLeaderCounts(t *testing.T) {
	behind, ahead := newBench(), newBench()
	behind.Heard(1, noon)
	ahead.Heard(1, noon+500)
	start, _ := behind.Lead(2, noon, []Answer{behind.Answer(), walls(noon)[0]}, 3) // the other one did not answer in time
	if start != noon {
		t.Fatalf("it begins at %d", start-noon)
	}
	ahead.Heard(2, start)
	if got := ahead.Answer(); got.Floor != noon || got.Term != 2 {
		t.Errorf("the floor is %d of term %d", got.Floor-noon, got.Term)
	}
	third := newBench()
	third.Heard(2, noon)
	deaf := Answer{Wall: noon, Floor: noon + 500, Term: 1} // it has not heard of the second leader
	if start, _ := third.Lead(3, noon, []Answer{third.Answer(), deaf}, 3); start != noon {
		t.Errorf("the third term begins at %d", start-noon)
	}
}
