package wire

import (
	"encoding/json"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"onced"
)

const at onced.Instant = 1_700_000_000_000 // 2023-11-14T22:13:20Z

var completed = onced.Record{ID: id, State: onced.StateCompleted, Fingerprint: "f", Attempt: 2, Token: 7, Owner: "o", CreatedAt: at,
	CompletedAt: at + 5, ExpiresAt: at + 86_400_005, Response: &onced.Response{Status: 201, Headers: []onced.Header{{Name: "A", Value: "b"}}, Body: []byte("hi")}}

func TestAnswersAsWritten(t *testing.T) {
	running := onced.Record{ID: id, State: onced.StateInProgress, Fingerprint: "f", Attempt: 1, Token: 6, Owner: "o", Lease: 30 * time.Second,
		CreatedAt: at, LeaseExpiresAt: at + 30_000}
	checkpointed := running
	checkpointed.Checkpoint = []byte(`{"a" : 1}`)
	unknown := running
	unknown.State = onced.StateUnknown
	bare := completed
	bare.Response = nil
	expired := bare
	expired.State = onced.StateExpired
	omitted := completed
	omitted.Response = &onced.Response{Status: 200, BodyOmitted: true, Reference: "r"}
	absent := onced.Record{ID: id, Token: 7, Owner: "o"}
	cases := []struct {
		name      string
		got, want string
	}{
		{"reserved", string(AppendReserveResult(nil, onced.ReserveResult{Record: running})),
			`{"outcome":"reserved","replayed":false,"repeated":false,"key":"k/1","token":6,"owner":"o","attempt":1,"lease":"30s","lease_expires_at":"2023-11-14T22:13:50.000Z"}`},
		{"taken over", string(AppendReserveResult(nil, onced.ReserveResult{Record: checkpointed, Repeated: true})),
			`{"outcome":"reserved","replayed":false,"repeated":true,"key":"k/1","token":6,"owner":"o","attempt":1,"lease":"30s","lease_expires_at":"2023-11-14T22:13:50.000Z","checkpoint":{"a" : 1}}`},
		{"replayed", string(AppendReserveResult(nil, onced.ReserveResult{Record: completed, Replayed: true})),
			`{"outcome":"replayed","replayed":true,"response":{"status":201,"headers":[["A","b"]],"body":"hi"},"completed_at":"2023-11-14T22:13:20.005Z","expires_at":"2023-11-15T22:13:20.005Z"}`},
		{"replayed, omitted", string(AppendReserveResult(nil, onced.ReserveResult{Record: omitted, Replayed: true})),
			`{"outcome":"replayed","replayed":true,"response":{"status":200,"headers":[],"body_omitted":true,"reference":"r"},"completed_at":"2023-11-14T22:13:20.005Z","expires_at":"2023-11-15T22:13:20.005Z"}`},
		{"renewed", string(AppendRenewed(nil, running)), `{"lease_expires_at":"2023-11-14T22:13:50.000Z"}`},
		{"record running", string(AppendRecord(nil, running)),
			`{"key":"k/1","scope":"POST /charge","tenant":"acme","state":"in_progress","fingerprint":"f","attempt":1,"token":6,"owner":"o","created_at":"2023-11-14T22:13:20.000Z","lease_expires_at":"2023-11-14T22:13:50.000Z"}`},
		{"record unknown", string(AppendRecord(nil, unknown)),
			`{"key":"k/1","scope":"POST /charge","tenant":"acme","state":"unknown","fingerprint":"f","attempt":1,"token":6,"owner":"o","created_at":"2023-11-14T22:13:20.000Z","lease_expires_at":"2023-11-14T22:13:50.000Z"}`},
		{"record completed", string(AppendRecord(nil, completed)),
			`{"key":"k/1","scope":"POST /charge","tenant":"acme","state":"completed","fingerprint":"f","attempt":2,"token":7,"owner":"o","created_at":"2023-11-14T22:13:20.000Z","completed_at":"2023-11-14T22:13:20.005Z","expires_at":"2023-11-15T22:13:20.005Z","response":{"status":201,"headers":[["A","b"]],"body":"hi"}}`},
		{"record expired", string(AppendRecord(nil, expired)),
			`{"key":"k/1","scope":"POST /charge","tenant":"acme","state":"expired","fingerprint":"f","attempt":2,"token":7,"owner":"o","created_at":"2023-11-14T22:13:20.000Z","completed_at":"2023-11-14T22:13:20.005Z","expires_at":"2023-11-15T22:13:20.005Z"}`},
		{"record absent", string(AppendRecord(nil, absent)), `{"key":"k/1","scope":"POST /charge","tenant":"acme","state":"absent"}`},
		{"empty page", string(AppendList(nil, onced.ListResult{})), `{"records":[],"next_cursor":""}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.got != c.want {
				t.Errorf("got\n%s\nwant\n%s", c.got, c.want)
			}
			if !json.Valid([]byte(c.got)) {
				t.Error("it is not JSON")
			}
		})
	}
}

func TestAnswersComeBack(t *testing.T) {
	reserved := onced.ReserveResult{Repeated: true, Record: onced.Record{ID: id, State: onced.StateInProgress, Attempt: 3, Token: 9, Owner: "o",
		Lease: time.Second, LeaseExpiresAt: at, Checkpoint: []byte(`[1, 2]`)}}
	replayed := onced.ReserveResult{Replayed: true, Record: onced.Record{ID: id, State: onced.StateCompleted, CompletedAt: at, ExpiresAt: at + 1, Response: completed.Response}}
	for _, want := range []onced.ReserveResult{reserved, replayed} {
		got, err := DecodeReserveResult(AppendReserveResult(nil, want), id)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	}
	rec, err := DecodeRecord(AppendRecord(nil, completed))
	if diff := cmp.Diff(completed, rec); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	until, err := DecodeRenewed(AppendRenewed(nil, reserved.Record))
	if err != nil || until != at {
		t.Errorf("renewed: %v, %v", until, err)
	}
	bare := completed
	bare.Response = nil
	want := onced.ListResult{Records: []onced.Record{bare, bare}, NextCursor: "c"}
	page, err := DecodeList(AppendList(nil, onced.ListResult{Records: []onced.Record{bare, completed}, NextCursor: "c"}))
	if diff := cmp.Diff(want, page); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestAnswersOfALaterRelease(t *testing.T) {
	got, err := DecodeReserveResult([]byte(`{"outcome":"reserved","later":{"a":[1,"\ud800",null,{}]},"token":4,"owner":"o"}`), id)
	if err != nil || got.Record.Token != 4 {
		t.Errorf("%+v, %v", got, err)
	}
}

// An answer that is no clear yes must never be taken for a reservation.
func TestAnswersThatAreNone(t *testing.T) {
	for _, body := range []string{``, `{}`, `{"outcome":"reserved"}`, `{"outcome":"replayed"}`, `{"token":1}`, `<html>`, `{"outcome":"reserved","token":1.0}`,
		`{"outcome":"reserved","token":1} x`, `{"outcome":"granted","token":1}`} {
		if got, err := DecodeReserveResult([]byte(body), id); err == nil {
			t.Errorf("%s was taken for %+v", body, got)
		}
	}
	if _, err := DecodeRenewed([]byte(`{}`)); err == nil {
		t.Error("a renew without a time was taken")
	}
	if _, err := DecodeRecord([]byte(`{"state":"completed"}`)); err == nil {
		t.Error("a record without a key was taken")
	}
	if _, err := DecodeList([]byte(`{"records":[]}`)); err == nil {
		t.Error("a page without next_cursor was taken")
	}
}

func TestProblems(t *testing.T) {
	running := onced.Record{ID: id, State: onced.StateInProgress, Fingerprint: "f", Attempt: 1, Token: 6, Owner: "o", CreatedAt: at, LeaseExpiresAt: at + 30_000}
	for _, info := range onced.Codes {
		want := onced.Problem{Code: info.Code, Detail: "why \"so\"", RetryAfter: 3 * time.Second, Record: &running}
		sent, withResponse := want, running
		withResponse.Response = completed.Response
		sent.Record = &withResponse
		body := AppendProblem(nil, &sent, 0)
		var members map[string]any
		if err := json.Unmarshal(body, &members); err != nil {
			t.Fatal(err)
		}
		if _, told := members["record"].(map[string]any)["response"]; told {
			t.Error("a problem tells a response")
		}
		delete(members, "record")
		expected := map[string]any{"type": "/problems/" + string(info.Code), "title": info.Title, "status": float64(info.Status), "detail": want.Detail,
			"code": string(info.Code), "retry": string(info.Retry), "retry_after": 3.0}
		if diff := cmp.Diff(expected, members); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(&want, DecodeProblem(body, info.Status)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestProblemsOfOthers(t *testing.T) {
	for _, body := range []string{``, `<html>502</html>`, `{"code":"new_code","detail":"later"}`, `{"title":"x"}`, `null`} {
		if p := DecodeProblem([]byte(body), 502); p.Code != onced.CodeUnavailable || p.Detail == "" {
			t.Errorf("%s became %v", body, p)
		}
	}
}

func TestWriteProblem(t *testing.T) {
	cases := []struct {
		problem    onced.Problem
		status     int
		wantStatus int
		retryAfter string
	}{
		{onced.Problem{Code: onced.CodeConflict}, 0, 409, ""},
		{onced.Problem{Code: onced.CodeConflict}, 422, 422, ""},
		{onced.Problem{Code: onced.CodeRequestInProgress, RetryAfter: time.Millisecond}, 0, 409, "1"},
		{onced.Problem{Code: onced.CodeRequestInProgress, RetryAfter: 1001 * time.Millisecond}, 0, 409, "2"},
		{onced.Problem{Code: "no such code", RetryAfter: 2 * time.Second}, 0, 503, "2"},
	}
	for _, c := range cases {
		w := httptest.NewRecorder()
		WriteProblem(w, &c.problem, c.status)
		if w.Code != c.wantStatus || w.Header().Get("Retry-After") != c.retryAfter || w.Header().Get("Content-Type") != ProblemType || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%v: %d %v", c.problem, w.Code, w.Header())
		}
		var body struct{ Status int }
		if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body.Status != c.wantStatus {
			t.Errorf("body %s: %v", w.Body, err)
		}
	}
}
