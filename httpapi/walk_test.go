package httpapi

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"onced"
	"onced/fsm/memkeeper"
	"onced/internal/limits"
)

// walk sends requests that chance picks to the real state machine.
type walk struct {
	chance  *rand.Rand
	now     onced.Instant
	handler http.Handler
}

// one picks one of words.
func (w *walk) one(words ...string) string { return words[w.chance.IntN(len(words))] }

// request makes one: few keys, owners and tokens, so that they meet in every way.
func (w *walk) request() (method, path, body string) {
	key := "/v1/keys/" + w.one("a", "b", "c")
	token := fmt.Sprintf(`"token":%d`, 1+w.chance.IntN(200))
	if w.chance.IntN(2) == 0 { // likelier to be a current one
		token = fmt.Sprintf(`"token":%d`, w.current(key))
	}
	response := `"response":{"status":200,"body":"` + w.one("x", "y") + `"}`
	switch w.chance.IntN(10) {
	case 0, 1, 2:
		return "POST", key + "/reserve", fmt.Sprintf(`{"fingerprint":"%s","owner":"%s","on_lapse":"%s","retention":"%s","tombstone":"%s"%s}`,
			w.one("f", "f", "f", "g"), w.one("o", "p", "q"), w.one("hold", "retry"), w.one("1s", "1s", "1h"), w.one("0s", "1h", "1h"), w.one("", "", `,"takeover":`+strings.TrimPrefix(token, `"token":`)))
	case 3:
		return "POST", key + "/complete", "{" + token + "," + w.one(response, `"outcome":"unknown"`) + "}"
	case 4:
		return "POST", key + "/release", "{" + w.one(token, `"owner":"r"`) + "}"
	case 5:
		return "POST", key + "/renew", "{" + token + `,"lease":"` + w.one("1s", "30s") + `"}`
	case 6:
		return "POST", key + "/resolve", `{"reason":"r",` + w.one(`"outcome":"released"`, `"outcome":"completed",`+response) + w.one("", `,"force":true`) + "}"
	case 7:
		return "DELETE", key + w.one("", "?force=true"), ""
	case 8:
		return "GET", w.one(key, "/v1/keys", "/v1/keys?state=unknown", "/v1/cluster"), ""
	}
	return "POST", "/v1/batch", batchOf(`{"op":"reserve","key":"a","fingerprint":"f"}`, `{"op":"renew","key":"b",`+token+`}`, `{"op":"complete","key":"c",`+token+`,`+response+`}`, `{"op":"release","key":"d","owner":"z"}`)
}

// current is the token of a key's record, 1 where there is none.
func (w *walk) current(key string) (token int) {
	answer := httptest.NewRecorder()
	w.handler.ServeHTTP(answer, httptest.NewRequest("GET", key, nil))
	if _, rest, ok := strings.Cut(answer.Body.String(), `"token":`); ok {
		fmt.Sscan(rest, &token)
	}
	return max(token, 1)
}

// What the machine answers is what is described, and all that is described of a record's life comes up.
func TestDescriptionOfEveryLife(t *testing.T) {
	d, err := readDescription()
	if err != nil {
		t.Fatal(err)
	}
	w := &walk{chance: rand.New(rand.NewPCG(1, 2)), now: at}
	cfg := config(limits.Keeper(memkeeper.New(func() onced.Instant { return w.now }), limits.Config{MaxKeys: 2}))
	cfg.Cluster = fixed{status: onced.ClusterStatus{Role: "leader"}}
	w.handler = New(cfg)
	got := map[string]bool{}
	for range 5_000 {
		method, path, body := w.request()
		o, ok := d.operationOf(method, path)
		if !ok {
			t.Fatalf("no operation is at %s %s", method, path)
		}
		answer := httptest.NewRecorder()
		w.handler.ServeHTTP(answer, httptest.NewRequest(method, path, strings.NewReader(body)))
		if err := d.conforms(o, answer); err != nil {
			t.Fatalf("%s %s %s: %d %s: %v", method, path, body, answer.Code, answer.Body, err)
		}
		got[o.id+" "+told(answer)] = true
		if w.chance.IntN(4) == 0 {
			w.now += onced.Instant(w.chance.IntN(4000))
		}
	}
	want := map[string]bool{}
	for _, o := range d.byID {
		for status, answer := range o.answers {
			if o.open || o.id == "metrics" || o.operator && !strings.Contains(o.path, "{key}") {
				continue // not of a record
			}
			codes := d.codes(answer)
			if codes == nil {
				want[o.id+" "+status] = true
			}
			for _, code := range codes {
				want[o.id+" "+string(code)] = true
			}
		}
	}
	for name := range want {
		code := onced.Code(name[strings.Index(name, " ")+1:])
		switch {
		case slices.Contains([]onced.Code{onced.CodeKeyInvalid, onced.CodeInvalidRequest, onced.CodeUnauthenticated, onced.CodeForbidden,
			onced.CodeRequestTooLarge, onced.CodeResponseTooLarge, onced.CodeRateLimited, onced.CodeUnavailable}, code):
			delete(want, name) // not of a record's life
		case name == "resolve stale_token" || name == "forget stale_token":
			delete(want, name) // only where two meet
		}
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
		t.Errorf("described (-) and answered (+):\n%s", diff)
	}
}

// told is the code of a refusal, else the status.
func told(w *httptest.ResponseRecorder) string {
	if _, rest, ok := strings.Cut(w.Body.String(), `"code":"`); ok && w.Code >= 400 {
		return rest[:strings.IndexByte(rest, '"')]
	}
	return fmt.Sprint(w.Code)
}
