package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"onced"
)

// admin is an Admin whose every answer is set, and that remembers what it was asked.
type admin struct {
	asked  string
	member onced.Member
	backup *onced.Backup
	err    error
}

func (a *admin) AddMember(_ context.Context, id, addr string) (onced.Member, error) {
	a.asked = fmt.Sprintf("add %s %s", id, addr)
	return a.member, a.err
}

func (a *admin) RemoveMember(_ context.Context, id string, force bool) error {
	a.asked = fmt.Sprintf("remove %s %t", id, force)
	return a.err
}

func (a *admin) Backup(_ context.Context, stale bool) (*onced.Backup, error) {
	a.asked = fmt.Sprintf("backup %t", stale)
	return a.backup, a.err
}

// TestMemberCalls is a row for each answer of the calls that change the membership.
func TestMemberCalls(t *testing.T) {
	const members = "/v1/cluster/members"
	refused := onced.RefuseMembership(http.StatusConflict, "it would harm")
	unknown := onced.RefuseMembership(http.StatusNotFound, "n9 is no member")
	for name, tc := range map[string]struct {
		method, target, body string
		err                  error
		status               int
		asked                string
		answer               string
	}{
		"add":                {"POST", members, `{"id":"n4","address":"h:1"}`, nil, 200, "add n4 h:1", `{"id":"n4","address":"h:1","voter":false,"role":"learner"}`},
		"add refused":        {"POST", members, `{"id":"n4","address":"h:1"}`, refused, 409, "add n4 h:1", "it would harm"},
		"add undecided":      {"POST", members, `{"id":"n4","address":"h:1"}`, onced.Problemf(onced.CodeUnavailable, "no leader"), 503, "add n4 h:1", "no leader"},
		"add without id":     {"POST", members, `{"address":"h:1"}`, nil, 400, "", `\"id\"`},
		"add no address":     {"POST", members, `{"id":"n4"}`, nil, 400, "", `\"address\"`},
		"add a typo":         {"POST", members, `{"id":"n4","adress":"h:1"}`, nil, 400, "", "adress"},
		"add nothing":        {"POST", members, ``, nil, 400, "", "empty"},
		"remove":             {"DELETE", members + "/n4", "", nil, 204, "remove n4 false", ""},
		"remove by force":    {"DELETE", members + "/n4?force=true&reason=dead", "", nil, 204, "remove n4 true", ""},
		"remove an escaped":  {"DELETE", members + "/n%2F4", "", unknown, 404, "remove n/4 false", "n9 is no member"},
		"remove unknown":     {"DELETE", members + "/n9", "", unknown, 404, "remove n9 false", "n9 is no member"},
		"remove, half force": {"DELETE", members + "/n9?force=yes", "", nil, 400, "", "force"},
		"remove, long why":   {"DELETE", members + "/n9?reason=" + strings.Repeat("x", onced.MaxReason+1), "", nil, 400, "", "reason"},
		"a list":             {"GET", members, "", nil, 405, "", "POST"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &admin{member: onced.Member{ID: "n4", Address: "h:1", Role: "learner"}, err: tc.err}
			cfg := config(&scripted{})
			cfg.Admin = a
			w := do(cfg, tc.method, tc.target, tc.body)
			if w.Code != tc.status || a.asked != tc.asked || !strings.Contains(w.Body.String(), tc.answer) {
				t.Errorf("status %d, asked %q: %s", w.Code, a.asked, w.Body)
			}
		})
	}
}

// TestAdminIsAnOperators: nobody else changes or copies the cluster, and what they try is not even asked.
func TestAdminIsAnOperators(t *testing.T) {
	for target, method := range map[string]string{
		"/v1/cluster/members": "POST", "/v1/cluster/members/n1": "DELETE", "/v1/backup": "GET",
	} {
		for _, role := range []Role{RoleClient, RoleGateway} {
			a := &admin{}
			cfg := config(&scripted{})
			cfg.Admin = a
			cfg.Authority = authorityFunc(func(*http.Request) (Caller, error) { return Caller{Name: "c", Tenant: "t", Role: role}, nil })
			checkProblem(t, do(cfg, method, target, `{"id":"n4","address":"h:1"}`), 403, onced.CodeForbidden, string(role))
			if a.asked != "" {
				t.Errorf("%s %s by a %s: asked %q", method, target, role, a.asked)
			}
		}
	}
}

// TestAdminAudit: every change and every copy leaves one line, refused or not.
func TestAdminAudit(t *testing.T) {
	for target, method := range map[string]string{
		"/v1/cluster/members": "POST", "/v1/cluster/members/n4?reason=dead": "DELETE", "/v1/backup": "GET",
	} {
		for _, err := range []error{nil, onced.RefuseMembership(409, "no majority"), onced.Problemf(onced.CodeUnavailable, "no leader")} {
			var log bytes.Buffer
			cfg := config(&scripted{})
			cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
			cfg.Admin = &admin{err: err, backup: backupOf("all", 3)}
			do(cfg, method, target, `{"id":"n4","address":"h:1"}`)
			if n := strings.Count(log.String(), "msg=audit"); n != 1 {
				t.Errorf("%s %s: %d lines: %s", method, target, n, &log)
			}
			if ok := strings.Contains(log.String(), "outcome=ok"); ok != (err == nil) {
				t.Errorf("%s %s with %v: %s", method, target, err, &log)
			}
		}
	}
}

func backupOf(content string, size int64) *onced.Backup {
	return &onced.Backup{ReadCloser: io.NopCloser(strings.NewReader(content)), Size: size, Index: 7, ClusterID: "c"}
}

// TestBackup: the bytes come as they are, with their number; half of them come as a connection that breaks.
func TestBackup(t *testing.T) {
	content := strings.Repeat("0123456789", 100_000)
	for name, tc := range map[string]struct {
		backup *onced.Backup
		whole  bool
	}{
		"whole":     {backupOf(content, int64(len(content))), true},
		"too short": {backupOf(content, int64(len(content))+1), false},
		"broken":    {&onced.Backup{ReadCloser: io.NopCloser(io.MultiReader(strings.NewReader(content), failing{})), Size: int64(len(content)) + 5}, false},
	} {
		t.Run(name, func(t *testing.T) {
			a := &admin{backup: tc.backup}
			cfg := config(&scripted{})
			cfg.Admin = a
			server := httptest.NewServer(New(cfg))
			defer server.Close()
			response, err := http.Get(server.URL + "/v1/backup?stale=true")
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			got, err := io.ReadAll(response.Body)
			if (err == nil) != tc.whole || tc.whole && string(got) != content || a.asked != "backup true" {
				t.Errorf("%d bytes, asked %q: %v", len(got), a.asked, err)
			}
			if tc.whole && (response.Header.Get(BackupIndexHeader) != "7" || response.Header.Get(BackupClusterHeader) != "c" || response.ContentLength != int64(len(content))) {
				t.Errorf("headers %v", response.Header)
			}
		})
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("the disk") }

// TestNoAdmin: without one there are no such calls.
func TestNoAdmin(t *testing.T) {
	if w := do(config(&scripted{}), "GET", "/v1/backup", ""); w.Code != 404 {
		t.Errorf("status %d", w.Code)
	}
}
