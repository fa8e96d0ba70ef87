package front

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestFound(t *testing.T) {
	for _, c := range []struct {
		value, answer string
		err           error
	}{
		{Reserved(7, "f"), "", ErrInProgress},
		{Reserved(7, "g"), "", ErrConflict},
		{Completed(7, "f", []byte(`{"body":"a\nb"}`)), `{"body":"a\nb"}`, nil},
		{Completed(7, "g", []byte(`{}`)), "", ErrConflict},
	} {
		got, err := Found([]byte(c.value), "f")
		if !errors.Is(err, c.err) || string(got.Answer) != c.answer {
			t.Errorf("%q: %q, %v, expected %q, %v", c.value, got.Answer, err, c.answer, c.err)
		}
	}
	if _, err := Found([]byte("other"), "f"); err == nil {
		t.Error("something else is taken for a record")
	}
}

// TestFront walks through the calls that the comparison makes.
func TestFront(t *testing.T) {
	s := httptest.NewServer(Handler(NewMemory(), time.Millisecond))
	defer s.Close()
	for _, c := range []struct {
		path, body, key string
		status          int
		want            string
	}{
		{"/v1/keys/a/reserve", `{"fingerprint":"f"}`, "", 201, `"token":1`},
		{"/v1/keys/a/reserve", `{"fingerprint":"f"}`, "", 409, `"request_in_progress"`},
		{"/v1/keys/a/reserve", `{"fingerprint":"g"}`, "", 409, `"idempotency_conflict"`},
		{"/v1/keys/a/complete", `{"token":2,"response":{"body":"x"}}`, "", 409, `"stale_token"`},
		{"/v1/keys/a/complete", `{"token":1,"response":{"body":"x"}}`, "", 200, `"token":1`},
		{"/v1/keys/a/reserve", `{"fingerprint":"f"}`, "", 200, `"replayed":true,"key":"a","response":{"body":"x"}`},
		{"/v1/batch", `{"operations":[{"op":"reserve","key":"b","fingerprint":"f"},{"op":"reserve","key":"a","fingerprint":"f"}]}`, "", 200, `{"results":[{"status":201,"outcome":"reserved"`},
		{"/fill", `{"keys":["c","d"],"fingerprint":"f","response":{"body":"y"}}`, "", 200, `{}`},
		{"/v1/keys/d/reserve", `{"fingerprint":"f"}`, "", 200, `{"body":"y"}`},
		{"/charge", `{"amount":1}`, "e", 201, `{"charge":"ch_000001"}`},
		{"/charge", `{"amount":1}`, "e", 201, `{"charge":"ch_000001"}`},
		{"/charge", `{"amount":2}`, "e", 409, `"idempotency_conflict"`},
		{"/charge", `{"amount":1}`, "", 400, `Idempotency-Key`},
		{"/v1/keys/a/reserve", `{`, "", 400, `reading the body`},
	} {
		r, _ := http.NewRequest(http.MethodPost, s.URL+c.path, strings.NewReader(c.body))
		if c.key != "" {
			r.Header.Set("Idempotency-Key", c.key)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		var said strings.Builder
		response.Write(&said)
		if response.StatusCode != c.status || !strings.Contains(said.String(), c.want) {
			t.Errorf("%s %s: expected %d and %s, got\n%s", c.path, c.body, c.status, c.want, said.String())
		}
	}
	response, err := http.Get(s.URL + "/charges")
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	response.Write(&said)
	if !strings.Contains(said.String(), `{"charges":1,"keys":1}`) {
		t.Errorf("the charges: %s", said.String())
	}
}
