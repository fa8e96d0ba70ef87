package wire

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"onced"
)

func idOf(scope string, key onced.Key) onced.ID { return onced.ID{Tenant: "t", Scope: scope, Key: key} }

func TestBatchThereAndBack(t *testing.T) {
	want := []Operation{
		{Request: onced.ReserveRequest{ID: idOf("s", "a/b"), Fingerprint: "f", Owner: "o", Lease: time.Minute, OnLapse: onced.Retry, Takeover: 4}},
		{Request: onced.CompleteRequest{ID: idOf("", `"q"`), Token: 7, Response: &onced.Response{Status: 201, Body: []byte("hi")}}},
		{Request: onced.CompleteRequest{ID: idOf("", "u"), Token: 8, Unknown: true}},
		{Request: onced.ReleaseRequest{ID: idOf("", "r"), Owner: "o"}},
		{Request: onced.RenewRequest{ID: idOf("", "n"), Token: 9, Checkpoint: []byte(`{"a":1}`)}},
	}
	sent := append([]Operation(nil), want...)
	waiting := sent[0].Request.(onced.ReserveRequest)
	waiting.Wait = time.Second
	sent[0].Request = waiting // a batch does not wait
	got, err := DecodeBatch(AppendBatch(nil, sent), "t")
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// What an operation has may stand in any order.
func TestOperationInAnyOrder(t *testing.T) {
	got, err := DecodeBatch([]byte(` { "operations" : [ {"token":3,"scope":"s", "key":"\u006b", "op":"renew"} ] } `), "t")
	want := []Operation{{Request: onced.RenewRequest{ID: idOf("s", "k"), Token: 3}}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// A fault of one operation is its own; the one beside it stays what it is.
func TestMalformedOperations(t *testing.T) {
	for _, c := range []struct {
		operation string
		code      onced.Code
		wants     string
	}{
		{`{"op":"extend","key":"k"}`, onced.CodeInvalidRequest, `"operations[1].op" is "extend": expected reserve, complete, release or renew`},
		{`{"key":"k"}`, onced.CodeInvalidRequest, `"operations[1]" lacks the member "op"`},
		{`{"op":7,"key":"k"}`, onced.CodeInvalidRequest, `"operations[1].op" is a number`},
		{`{"op":"renew","token":1}`, onced.CodeKeyRequired, `"operations[1]" has no member "key"`},
		{`{"op":"renew","key":"","token":1}`, onced.CodeKeyInvalid, "the key is empty"},
		{`{"op":"renew","key":"\n","token":1}`, onced.CodeKeyInvalid, "0x0A"},
		{`{"op":"renew","key":"\ud800","token":1}`, onced.CodeInvalidRequest, "lone surrogate"},
		{`{"op":"renew","key":"k","scope":"é","token":1}`, onced.CodeInvalidRequest, "the scope has byte 0xC3"},
		{`{"op":"renew","key":"k"}`, onced.CodeInvalidRequest, `"operations[1]" lacks the member "token"`},
		{`{"op":"renew","key":"k","token":1,"key":"l"}`, onced.CodeInvalidRequest, `"operations[1]" has the member "key" twice`},
		{`{"op":"renew","key":"k","token":1,"owner":"o"}`, onced.CodeInvalidRequest, `unknown member "owner": expected only op, key, scope, token, lease, checkpoint`},
		{`{"op":"renew","key":"k","token":1,"Lease":"1s"}`, onced.CodeInvalidRequest, "names are lower case"},
		{`{"op":"reserve","key":"k","fingerprint":"","wait":"1s"}`, onced.CodeInvalidRequest, `"operations[1].wait" is there: expected no wait in a batch`},
		{`{"op":"reserve","key":"k","fingerprint":"","wait":"0s"}`, onced.CodeInvalidRequest, "expected no wait"},
		{`{"op":"reserve","key":"k"}`, onced.CodeInvalidRequest, `lacks the member "fingerprint"`},
		{`{"op":"reserve","key":"k","fingerprint":"","lease":"1ms"}`, onced.CodeInvalidRequest, `"operations[1].lease" is "1ms"`},
		{`{"op":"complete","key":"k","token":1}`, onced.CodeInvalidRequest, `"response" or "outcome":"unknown"`},
		{`{"op":"complete","key":"k","token":1,"response":{"status":99}}`, onced.CodeInvalidRequest, `"operations[1].response.status" is 99`},
		{`{"op":"release","key":"k"}`, onced.CodeInvalidRequest, `either "token" or "owner"`},
		{`{"op":"resolve","key":"k","outcome":"released","reason":"r"}`, onced.CodeInvalidRequest, `"resolve"`},
		{`7`, onced.CodeInvalidRequest, `"operations[1]" is a number: expected an object`},
		{`null`, onced.CodeInvalidRequest, `"operations[1]" is null`},
	} {
		got, err := DecodeBatch([]byte(`{"operations":[{"op":"renew","key":"a","token":1},`+c.operation+`,{"op":"renew","key":"b","token":2}]}`), "t")
		if err != nil || len(got) != 3 || got[0].Err != nil || got[2].Err != nil || got[2].Request.(onced.RenewRequest).Token != 2 {
			t.Errorf("%s: %v, %v", c.operation, got, err)
			continue
		}
		if bad := got[1]; bad.Request != nil || onced.CodeOf(bad.Err) != c.code || !strings.Contains(onced.AsProblem(bad.Err).Detail, c.wants) {
			t.Errorf("%s: %v, want %s naming %q", c.operation, bad.Err, c.code, c.wants)
		}
	}
}

func TestMalformedBatches(t *testing.T) {
	renew := `{"op":"renew","key":"a","token":1}`
	many := func(n int) string {
		return `{"operations":[` + strings.TrimSuffix(strings.Repeat(renew+",", n), ",") + `]}`
	}
	for body, wants := range map[string]string{
		"":                                       "the body is empty",
		"[]":                                     "an array: expected an object",
		"{}":                                     `lacks the member "operations"`,
		`{"operations":{}}`:                      `"operations" is an object: expected an array`,
		`{"operations":[` + renew + `}`:          "the body is not JSON",
		`{"operations":[{"op":"renew",}`:         "the body is not JSON",
		`{"operations":[],"atomic":true}`:        `unknown member "atomic"`,
		`{"operations":[` + renew + `]} x`:       "goes on after",
		`{"operations":[{"op":"` + "\xff" + `"}`: "not UTF-8",
		many(MaxOperations + 1):                  "more than 1000 elements",
	} {
		got, err := DecodeBatch([]byte(body), "t")
		if onced.CodeOf(err) != onced.CodeInvalidRequest || !strings.Contains(onced.AsProblem(err).Detail, wants) {
			t.Errorf("%.60s: %d operations, %v, want %q", body, len(got), err, wants)
		}
	}
	for _, n := range []int{0, 1, MaxOperations} {
		if got, err := DecodeBatch([]byte(many(n)), "t"); err != nil || len(got) != n {
			t.Errorf("%d operations: got %d, %v", n, len(got), err)
		}
	}
}

func TestResultsThereAndBack(t *testing.T) {
	reserved := onced.ReserveResult{Record: onced.Record{ID: idOf("", "k"), State: onced.StateInProgress, Token: 6, Owner: "o", Attempt: 1, Lease: time.Second, LeaseExpiresAt: 5}}
	results := []Result{
		NewResult(201, AppendReserveResult(nil, reserved)),
		ProblemResult(&onced.Problem{Code: onced.CodeConflict, Detail: "so", RetryAfter: time.Second}),
		NewResult(200, AppendReleased(nil, "k")),
	}
	body := AppendResults(nil, results)
	if want := `{"results":[{"status":201,"outcome":"reserved",`; !strings.HasPrefix(string(body), want) {
		t.Errorf("%s\nwant %s", body, want)
	}
	got, err := DecodeResults(body)
	if diff := cmp.Diff(results, got); err != nil || diff != "" {
		t.Fatalf("%v\n%s", err, diff)
	}
	back, err := DecodeReserveResult(got[0].Body, idOf("", "k"))
	if diff := cmp.Diff(reserved, back); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if p := DecodeProblem(got[1].Body, got[1].Status); p.Code != onced.CodeConflict || p.Detail != "so" || p.RetryAfter != time.Second {
		t.Errorf("problem %v", p)
	}
	for _, bad := range []string{`{}`, `{"results":[{}]}`, `{"results":[1]}`, `{"results":[{"status":7}]}`} {
		if _, err := DecodeResults([]byte(bad)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
