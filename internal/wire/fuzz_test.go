package wire

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"onced"
)

// Whatever is taken as a call is JSON for everybody else too, and comes back as it was.
func FuzzCalls(f *testing.F) {
	for _, seed := range []string{`{"fingerprint":"a\u00e9","owner":"o","lease":"1s","takeover":5}`, `{"token":1,"outcome":"unknown"}`,
		`{"token":1,"response":{"status":200,"headers":[["A","b"],["C","/w==","base64"]],"body_base64":"/w=="},"retention":"1h"}`,
		`{"token":1,"owner":"o"}`, `{"token":1,"checkpoint":{"a":[1.5e3,"\ud800"]}}`, `{"outcome":"released","reason":"r","force":true}`, `{"a`, `[`, "\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		taken := false
		if r, err := DecodeReserve(data, id); err == nil {
			taken = true
			again, err := DecodeReserve(AppendReserve(nil, r), id)
			if err != nil || again != r {
				t.Errorf("reserve: %+v became %+v, %v", r, again, err)
			}
		}
		if r, err := DecodeComplete(data, id); err == nil {
			taken = true
			again, err := DecodeComplete(AppendComplete(nil, r), id)
			if err != nil || !again.Response.Equal(r.Response) || again.Token != r.Token || again.Unknown != r.Unknown || again.Retention != r.Retention {
				t.Errorf("complete: %+v became %+v, %v", r, again, err)
			}
		}
		if r, err := DecodeRelease(data, id); err == nil {
			taken = true
			if again, err := DecodeRelease(AppendRelease(nil, r), id); err != nil || again != r {
				t.Errorf("release: %+v became %+v, %v", r, again, err)
			}
		}
		if r, err := DecodeRenew(data, id); err == nil {
			taken = true
			if again, err := DecodeRenew(AppendRenew(nil, r), id); err != nil || !bytes.Equal(again.Checkpoint, r.Checkpoint) || again.Token != r.Token || again.Lease != r.Lease {
				t.Errorf("renew: %+v became %+v, %v", r, again, err)
			}
		}
		if r, err := DecodeResolve(data, id); err == nil {
			taken = true
			if again, err := DecodeResolve(AppendResolve(nil, r), id); err != nil || !again.Response.Equal(r.Response) || again.Reason != r.Reason || again.Force != r.Force {
				t.Errorf("resolve: %+v became %+v, %v", r, again, err)
			}
		}
		if taken && !json.Valid(data) {
			t.Errorf("taken, but no JSON: %q", data)
		}
	})
}

// skip judges exactly as encoding/json does, but for UTF-8 and depth.
func FuzzGrammar(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.5e-3,true,null,"\u12aB\n"]} `, `01`, `-`, `1.`, `1e`, `[1,]`, `{"a"}`, `"\q"`, "\"\t\"", `tru`, ``, `{}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := scanner{data: data}
		err := s.skip(0)
		if err == nil {
			err = s.end()
		}
		if want := json.Valid(data) && utf8.Valid(data); (err == nil) != want && len(data) < maxDepth {
			t.Errorf("%q: %v, encoding/json says %v", data, err, want)
		}
	})
}

// Any response that the table can hold comes back byte for byte, in a record and in a replay.
func FuzzResponse(f *testing.F) {
	f.Add(200, "Content-Type", "text/plain", []byte("héllo"), false)
	f.Add(599, "X", "\xe9\xff", []byte{0xff, 0x00}, true)
	f.Fuzz(func(t *testing.T, status int, name, value string, body []byte, omitted bool) {
		if status < 100 || status > 599 || !isToken(name) || !isFieldValue(value) || len(name)+len(value) > MaxHeaderBytes {
			return
		}
		want := onced.Response{Status: status, Headers: []onced.Header{{Name: name, Value: value}, {Name: name, Value: ""}}}
		if want.BodyOmitted = omitted; !omitted {
			want.Body = body
		}
		rec := onced.Record{ID: id, State: onced.StateCompleted, Response: &want, Token: 1, CompletedAt: at, ExpiresAt: at}
		text := AppendRecord(nil, rec)
		if !json.Valid(text) || !utf8.Valid(text) {
			t.Fatalf("not JSON: %q", text)
		}
		got, err := DecodeRecord(text)
		if err != nil || !got.Response.Equal(&want) {
			t.Errorf("record: %+v, %v", got.Response, err)
		}
		replay, err := DecodeReserveResult(AppendReserveResult(nil, onced.ReserveResult{Replayed: true, Record: rec}), id)
		if err != nil || !replay.Record.Response.Equal(&want) {
			t.Errorf("replay: %+v, %v", replay.Record.Response, err)
		}
		if utf8.Valid(body) && !omitted && bytes.Contains(text, []byte("body_base64")) {
			t.Errorf("a body of UTF-8 went as base64: %s", text)
		}
	})
}

func FuzzProblem(f *testing.F) {
	f.Add([]byte(`{"code":"stale_token","retry_after":3,"detail":"x","record":{"key":"k","state":"unknown"}}`), 409)
	f.Fuzz(func(t *testing.T, data []byte, status int) {
		p := DecodeProblem(data, status)
		if p.Code.Info().Code != p.Code {
			t.Fatalf("an unknown code came out: %+v", p)
		}
		again := DecodeProblem(AppendProblem(nil, p, 0), status)
		if p.RetryAfter < time.Second {
			again.RetryAfter = p.RetryAfter
		}
		if p.Record == nil && !cmp.Equal(p, again) {
			t.Errorf("%+v became %+v", p, again)
		}
	})
}
