package wire

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"onced"
)

var id = onced.ID{Tenant: "acme", Scope: "POST /charge", Key: "k/1"}

// refusal is a body that has to be refused, and what the refusal has to name.
type refusal struct{ name, body, wants string }

func checkRefusals(t *testing.T, decode func(data []byte) error, cases []refusal) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := decode([]byte(c.body))
			if onced.CodeOf(err) != onced.CodeInvalidRequest {
				t.Fatalf("got %v, want invalid_request", err)
			}
			if !strings.Contains(err.Error(), c.wants) {
				t.Errorf("got %q, want it to name %q", err, c.wants)
			}
		})
	}
}

func TestReserveRefusals(t *testing.T) {
	decode := func(data []byte) error { _, err := DecodeReserve(data, id); return err }
	checkRefusals(t, decode, []refusal{
		{"empty", "", "the body is empty"},
		{"blank", " \n", "the body is empty"},
		{"array", `[]`, "is an array: expected an object"},
		{"null", `null`, "is null: expected an object"},
		{"cut", `{"fingerprint":"a"`, "ends at byte 18"},
		{"cut in a string", `{"fingerprint":"a`, "closing quote"},
		{"cut in an escape", `{"fingerprint":"a\`, "escapes"},
		{"no fingerprint", `{}`, `lacks the member "fingerprint"`},
		{"no fingerprint among others", `{"owner":"o"}`, `lacks the member "fingerprint"`},
		{"unknown", `{"fingerprint":"","leese":"1s"}`, `unknown member "leese": expected only fingerprint, owner`},
		{"other case", `{"Fingerprint":""}`, `unknown member "Fingerprint": expected "fingerprint"`},
		{"Kelvin sign", `{"fingerprint":"","to\u212aen":1}`, "unknown member"},
		{"twice", `{"fingerprint":"a","fingerprint":"a"}`, `"fingerprint" twice`},
		{"twice by escape", `{"fingerprint":"a","f\u0069ngerprint":"b"}`, `"fingerprint" twice`},
		{"trailing value", `{"fingerprint":"a"}{}`, "goes on after"},
		{"trailing comma", `{"fingerprint":"a",}`, "member's name"},
		{"trailing byte", "{\"fingerprint\":\"a\"}\x00", "goes on after"},
		{"byte order mark", "\ufeff{\"fingerprint\":\"a\"}", "not JSON"},
		{"fingerprint null", `{"fingerprint":null}`, `"fingerprint" is null: expected a string`},
		{"fingerprint number", `{"fingerprint":1}`, `"fingerprint" is a number: expected a string`},
		{"fingerprint long", `{"fingerprint":"` + strings.Repeat("f", 257) + `"}`, "fingerprint has 257 bytes"},
		{"fingerprint no UTF-8", "{\"fingerprint\":\"\xff\"}", `"fingerprint" has bytes that are not UTF-8`},
		{"name no UTF-8", "{\"fingerprint\":\"\",\"\xff\":1}", "not UTF-8"},
		{"lone surrogate", `{"fingerprint":"\ud800"}`, "lone surrogate"},
		{"surrogates swapped", `{"fingerprint":"\udc00\ud800"}`, "lone surrogate"},
		{"surrogate then other", `{"fingerprint":"\ud800\u0041"}`, "lone surrogate"},
		{"raw control", "{\"fingerprint\":\"a\nb\"}", "control characters"},
		{"raw control after escape", "{\"fingerprint\":\"a\\n\nb\"}", "control characters"},
		{"bad escape", `{"fingerprint":"\x41"}`, "escapes"},
		{"short escape", `{"fingerprint":"\u00g0"}`, "escapes"},
		{"owner long", `{"fingerprint":"","owner":"` + strings.Repeat("o", 65) + `"}`, "owner has 65 bytes"},
		{"lease number", `{"fingerprint":"","lease":30}`, `"lease" is a number: expected a duration from 100ms to 24h`},
		{"lease no unit", `{"fingerprint":"","lease":"30"}`, `"lease" is "30"`},
		{"lease zero", `{"fingerprint":"","lease":"0s"}`, `"lease" is "0s"`},
		{"lease short", `{"fingerprint":"","lease":"99ms"}`, `"lease" is "99ms"`},
		{"lease long", `{"fingerprint":"","lease":"24h1ms"}`, `"lease" is "24h1ms"`},
		{"lease negative", `{"fingerprint":"","lease":"-1s"}`, `"lease" is "-1s"`},
		{"retention zero", `{"fingerprint":"","retention":"0"}`, `"retention" is "0"`},
		{"retention long", `{"fingerprint":"","retention":"9601h"}`, `expected a duration from 1s to 9600h`},
		{"tombstone negative", `{"fingerprint":"","tombstone":"-1s"}`, `"tombstone" is "-1s"`},
		{"wait long", `{"fingerprint":"","wait":"61s"}`, `"wait" is "61s": expected a duration from 0s to 1m`},
		{"policy", `{"fingerprint":"","on_lapse":"rerun"}`, "expected hold or retry"},
		{"policy empty", `{"fingerprint":"","on_lapse":""}`, "expected hold or retry"},
		{"takeover zero", `{"fingerprint":"","takeover":0}`, `"takeover" is 0`},
		{"takeover string", `{"fingerprint":"","takeover":"7"}`, `"takeover" is a string: expected an integer from 1 to 9007199254740991`},
		{"takeover 2^53", `{"fingerprint":"","takeover":9007199254740992}`, `"takeover" is 9007199254740992`},
		{"takeover 2^64+1", `{"fingerprint":"","takeover":18446744073709551617}`, `"takeover" is 18446744073709551617`},
		{"takeover exponent", `{"fingerprint":"","takeover":1e3}`, `"takeover" is 1e3`},
		{"takeover fraction", `{"fingerprint":"","takeover":1.0}`, `"takeover" is 1.0`},
		{"takeover negative", `{"fingerprint":"","takeover":-1}`, `"takeover" is -1`},
		{"takeover leading zero", `{"fingerprint":"","takeover":07}`, "leading zero"},
		{"single quotes", `{'fingerprint':''}`, "member's name in quotes"},
	})
}

func TestReserveWhole(t *testing.T) {
	body := ` {"fingerprint":"\u0000\"\\\/\ud83d\ude00é","owner":"o-1","lease":"100ms","retention":"9600h","tombstone":"1h30m",
	 "on_lapse":"retry","wait":"1m","takeover":9007199254740991}` + "\n"
	got, err := DecodeReserve([]byte(body), id)
	if err != nil {
		t.Fatal(err)
	}
	want := onced.ReserveRequest{ID: id, Fingerprint: "\x00\"\\/😀é", Owner: "o-1", Lease: 100 * time.Millisecond,
		Retention: onced.MaxRetention, Tombstone: 90 * time.Minute, OnLapse: onced.Retry, Wait: time.Minute, Takeover: onced.MaxToken}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	again, err := DecodeReserve(AppendReserve(nil, got), id)
	if diff := cmp.Diff(got, again); err != nil || diff != "" {
		t.Errorf("round trip: %v\n%s", err, diff)
	}
}

func TestReserveLeast(t *testing.T) {
	got, err := DecodeReserve([]byte(`{"fingerprint":""}`), id)
	if diff := cmp.Diff(onced.ReserveRequest{ID: id}, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if body := string(AppendReserve(nil, got)); body != `{"fingerprint":""}` {
		t.Errorf("got %s", body)
	}
}

func TestCompleteRefusals(t *testing.T) {
	decode := func(data []byte) error { _, err := DecodeComplete(data, id); return err }
	with := func(response string) string { return `{"token":1,"response":` + response + `}` }
	checkRefusals(t, decode, []refusal{
		{"no token", `{"response":{"status":200}}`, `lacks the member "token"`},
		{"token zero", `{"token":0,"response":{"status":200}}`, `"token" is 0`},
		{"token fraction", `{"token":1.0,"response":{"status":200}}`, `"token" is 1.0`},
		{"token minus zero", `{"token":-0,"outcome":"unknown"}`, `"token" is -0`},
		{"neither", `{"token":1}`, `either "response" or "outcome"`},
		{"both", `{"token":1,"outcome":"unknown","response":{"status":200}}`, "not both"},
		{"other outcome", `{"token":1,"outcome":"completed"}`, `expected "unknown"`},
		{"response null", with(`null`), `"response" is null: expected an object`},
		{"no status", with(`{}`), `"response" lacks the member "status"`},
		{"status text", with(`{"status":"200"}`), `"response.status" is a string: expected an integer from 100 to 599`},
		{"status low", with(`{"status":99}`), `"response.status" is 99`},
		{"status high", with(`{"status":600}`), `"response.status" is 600`},
		{"two bodies", with(`{"status":200,"body":"","body_base64":""}`), `both "body" and "body_base64"`},
		{"body and omitted", with(`{"status":200,"body":"x","body_omitted":true}`), `"body_omitted"`},
		{"empty body and omitted", with(`{"status":200,"body":"","body_omitted":true}`), `"body_omitted"`},
		{"reference alone", with(`{"status":200,"reference":"s3://x"}`), `"reference"`},
		{"reference long", with(`{"status":200,"body_omitted":true,"reference":"` + strings.Repeat("r", 2049) + `"}`), `"reference" of 2049 bytes`},
		{"body object", with(`{"status":200,"body":{}}`), `"response.body" is an object: expected a string`},
		{"base64 url alphabet", with(`{"status":200,"body_base64":"_-8="}`), "is no base64"},
		{"base64 unpadded", with(`{"status":200,"body_base64":"YQ"}`), "is no base64"},
		{"base64 line break", with(`{"status":200,"body_base64":"YWJj\nYWJj"}`), "is no base64"},
		{"base64 stray bits", with(`{"status":200,"body_base64":"YR=="}`), "is no base64"},
		{"headers object", with(`{"status":200,"headers":{}}`), `"response.headers" is an object: expected an array`},
		{"header string", with(`{"status":200,"headers":["A: b"]}`), `"response.headers[0]" is a string`},
		{"header alone", with(`{"status":200,"headers":[["A"]]}`), `"response.headers[0]" has 1 elements`},
		{"header of four", with(`{"status":200,"headers":[["A","","base64","d"]]}`), `"response.headers[0][3]" is one too many`},
		{"header of another encoding", with(`{"status":200,"headers":[["A","b","hex"]]}`), `"response.headers[0][2]" is "hex"`},
		{"header value number", with(`{"status":200,"headers":[["A","b"],["C",1]]}`), `"response.headers[1][1]" is a number`},
		{"header name empty", with(`{"status":200,"headers":[["","b"]]}`), "expected the name of a header"},
		{"header name blank", with(`{"status":200,"headers":[["A b","c"]]}`), "expected the name of a header"},
		{"header name colon", with(`{"status":200,"headers":[[":status","c"]]}`), "expected the name of a header"},
		{"header name newline", with(`{"status":200,"headers":[["A\nB","c"]]}`), "expected the name of a header"},
		{"header name accent", with(`{"status":200,"headers":[["É","c"]]}`), "expected the name of a header"},
		{"header value CRLF", with(`{"status":200,"headers":[["A","b\r\nC: d"]]}`), "control character"},
		{"header value NUL", with(`{"status":200,"headers":[["A","\u0000"]]}`), "control character"},
		{"header value DEL", with("{\"status\":200,\"headers\":[[\"A\",\"\x7f\"]]}"), "control character"},
		{"header value CRLF by base64", with(`{"status":200,"headers":[["A","DQo=","base64"]]}`), "control character"},
		{"unknown in response", with(`{"status":200,"boddy":""}`), `"response" has the unknown member "boddy"`},
		{"other case in response", with(`{"Status":200}`), `expected "status"`},
		{"retention short", `{"token":1,"outcome":"unknown","retention":"999ms"}`, `"retention" is "999ms"`},
	})
}

func TestCompleteHeadersTooLarge(t *testing.T) {
	value := strings.Repeat("v", MaxHeaderBytes)
	_, err := DecodeComplete([]byte(`{"token":1,"response":{"status":200,"headers":[["A","`+value+`"]]}}`), id)
	if onced.CodeOf(err) != onced.CodeResponseTooLarge {
		t.Errorf("got %v, want response_too_large", err)
	}
}

func TestCompleteWhole(t *testing.T) {
	cases := map[string]onced.Response{
		"text":     {Status: 201, Headers: []onced.Header{{Name: "Content-Type", Value: "text/plain"}, {Name: "X", Value: ""}, {Name: "X", Value: "a\tb"}}, Body: []byte("héllo \u2028\x00\x1f\x7f<&>\r\n\t\"\\")},
		"binary":   {Status: 200, Body: []byte{0xff, 0, 0xfe}},
		"empty":    {Status: 204},
		"omitted":  {Status: 200, BodyOmitted: true},
		"by blob":  {Status: 200, BodyOmitted: true, Reference: "s3://bucket/é"},
		"latin-1":  {Status: 200, Headers: []onced.Header{{Name: "Content-Disposition", Value: "filename=\"\xe9\""}}},
		"replaced": {Status: 200, Body: []byte("\ufffd")},
	}
	for name, response := range cases {
		t.Run(name, func(t *testing.T) {
			want := onced.CompleteRequest{ID: id, Token: 7, Response: &response, Retention: time.Minute}
			body := AppendComplete(nil, want)
			if !json.Valid(body) {
				t.Fatalf("not JSON: %s", body)
			}
			got, err := DecodeComplete(body, id)
			if err != nil {
				t.Fatal(err)
			}
			if !got.Response.Equal(&response) {
				t.Errorf("got %+v, want %+v", got.Response, response)
			}
			if got.Token != 7 || got.Retention != time.Minute || got.ID != id {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestDecodedSharesNoMemory(t *testing.T) {
	body := []byte(`{"token":1,"response":{"status":200,"headers":[["A","bc"]],"body":"body"}}`)
	complete, err := DecodeComplete(body, id)
	renewBody := []byte(`{"token":1,"checkpoint":[1,2]}`)
	renew, err2 := DecodeRenew(renewBody, id)
	if err != nil || err2 != nil {
		t.Fatal(err, err2)
	}
	clear(body)
	clear(renewBody)
	if string(complete.Response.Body) != "body" || complete.Response.Headers[0] != (onced.Header{Name: "A", Value: "bc"}) {
		t.Errorf("the response changed: %+v", complete.Response)
	}
	if string(renew.Checkpoint) != "[1,2]" {
		t.Errorf("the checkpoint changed: %s", renew.Checkpoint)
	}
}

func TestRelease(t *testing.T) {
	decode := func(data []byte) error { _, err := DecodeRelease(data, id); return err }
	checkRefusals(t, decode, []refusal{
		{"neither", `{}`, `either "token" or "owner"`},
		{"both", `{"token":1,"owner":"o"}`, "not both"},
		{"owner empty", `{"owner":""}`, `"owner" is ""`},
		{"token text", `{"token":"1"}`, `"token" is a string`},
		{"unknown", `{"token":1,"reason":"x"}`, `unknown member "reason"`},
	})
	for _, want := range []onced.ReleaseRequest{{ID: id, Token: 3}, {ID: id, Owner: "o"}} {
		got, err := DecodeRelease(AppendRelease(nil, want), id)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	}
}

func TestRenew(t *testing.T) {
	decode := func(data []byte) error { _, err := DecodeRenew(data, id); return err }
	checkRefusals(t, decode, []refusal{
		{"no token", `{"lease":"1s"}`, `lacks the member "token"`},
		{"lease zero", `{"token":1,"lease":"0s"}`, `"lease" is "0s"`},
		{"checkpoint long", `{"token":1,"checkpoint":"` + strings.Repeat("c", 4095) + `"}`, `"checkpoint" has 4097 bytes`},
		{"checkpoint broken", `{"token":1,"checkpoint":{"a":}}`, "not JSON"},
		{"checkpoint no UTF-8", "{\"token\":1,\"checkpoint\":[\"\xff\"]}", "not UTF-8"},
		{"checkpoint too deep", `{"token":1,"checkpoint":` + strings.Repeat("[", 20000), "nested too deeply"},
	})
	deep := strings.Repeat("[", 2048) + strings.Repeat("]", 2048)
	for _, checkpoint := range []string{`null`, `0`, `-1.5E+3`, `"a\ud800b"`, `{"a" : [ 1.0, 1e3 ],"a":2}`, `""`, `true`, deep} {
		got, err := DecodeRenew([]byte(`{"token":5,"lease":"2s","checkpoint": `+checkpoint+" }"), id)
		if err != nil {
			t.Errorf("%.40s: %v", checkpoint, err)
			continue
		}
		want := onced.RenewRequest{ID: id, Token: 5, Lease: 2 * time.Second, Checkpoint: []byte(checkpoint)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		again, err := DecodeRenew(AppendRenew(nil, got), id)
		if err != nil || !bytes.Equal(again.Checkpoint, got.Checkpoint) {
			t.Errorf("round trip of %.40s: %.40s, %v", checkpoint, again.Checkpoint, err)
		}
	}
}

func TestResolve(t *testing.T) {
	decode := func(data []byte) error { _, err := DecodeResolve(data, id); return err }
	checkRefusals(t, decode, []refusal{
		{"no outcome", `{"reason":"x"}`, `lacks the member "outcome"`},
		{"other outcome", `{"outcome":"done","reason":"x"}`, `"outcome" is "done"`},
		{"no reason", `{"outcome":"released"}`, `lacks the member "reason"`},
		{"reason empty", `{"outcome":"released","reason":""}`, `"reason" is ""`},
		{"reason long", `{"outcome":"released","reason":"` + strings.Repeat("r", 1025) + `"}`, "reason has 1025 bytes"},
		{"no response", `{"outcome":"completed","reason":"x"}`, `lacks the member "response"`},
		{"response of a release", `{"outcome":"released","reason":"x","response":{"status":200}}`, `only with "completed"`},
		{"force text", `{"outcome":"released","reason":"x","force":"true"}`, `"force" is a string: expected true or false`},
	})
	for _, want := range []onced.ResolveRequest{
		{ID: id, Reason: "never sent", Force: true},
		{ID: id, Reason: "it is there", Response: &onced.Response{Status: 201, Body: []byte("x")}},
	} {
		got, err := DecodeResolve(AppendResolve(nil, want), id)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	for d, want := range map[time.Duration]string{0: "0s", time.Second: "1s", 30 * time.Second: "30s", time.Minute: "1m", 90 * time.Second: "1m30s",
		10 * time.Minute: "10m", time.Hour: "1h", 24 * time.Hour: "24h", 100 * time.Hour: "100h", time.Hour + time.Second: "1h0m1s", 100 * time.Millisecond: "100ms"} {
		got := FormatDuration(d)
		if back, err := time.ParseDuration(got); got != want || err != nil || back != d {
			t.Errorf("FormatDuration(%d) = %q (%v, %v), want %q", d, got, back, err, want)
		}
	}
}
