package gateway

import (
	"fmt"
	"sync"
	"testing"

	"onced"
)

// F15, F16: many identical requests at once are one run; the others are told to wait or
// get the answer, and none gets a 5xx.
func TestManyAtOnceAreOneRun(t *testing.T) {
	up := newUpstream(t, answers(created))
	b := newBench(t, up, Deps{}, Route{Match: "POST /charge"})
	const keys, copies = 4, 25
	var wg sync.WaitGroup
	for i := range keys * copies {
		wg.Add(1)
		go func() {
			defer wg.Done()
			r := b.send(charge(fmt.Sprint("k", i%keys), "x", "Connection: close"))
			if r.status != 201 && (r.status != 409 || !r.hasCode(onced.CodeRequestInProgress)) {
				t.Errorf("got\n%v", r)
			}
		}()
	}
	wg.Wait()
	b.expectRuns(keys)
}
