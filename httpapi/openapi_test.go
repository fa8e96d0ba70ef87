package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/mux"
	"github.com/prometheus/client_golang/prometheus"

	"onced"
	"onced/metrics"
)

// described is one operation of the description.
type described struct {
	id, path, method string
	query            []string        // the parameters of the query, sorted
	params           []node          // all of them
	open             bool            // asks for no credentials
	operator         bool            // an operator's
	bodies           map[string]any  // the examples of its body, by name
	body             node            // the schema of its body; nil = none
	answers          map[string]node // by status
}

// operations returns every operation, by its id.
func (d description) operations() map[string]described {
	all := map[string]described{}
	for path, item := range d.root["paths"].(node) {
		shared := list(item.(node)["parameters"])
		for method, v := range item.(node) {
			operation, ok := v.(node)
			if !ok || method == "parameters" {
				continue
			}
			o := described{id: operation["operationId"].(string), path: path, method: strings.ToUpper(method), answers: map[string]node{}}
			o.operator = slices.Contains(list(operation["tags"]), any("operator"))
			for _, p := range append(shared[:len(shared):len(shared)], list(operation["parameters"])...) {
				param := d.follow(p.(node))
				o.params = append(o.params, param)
				if param["in"] == "query" {
					o.query = append(o.query, param["name"].(string))
				}
			}
			slices.Sort(o.query)
			if security, ok := operation["security"]; ok && len(list(security)) == 0 {
				o.open = true
			}
			if body, ok := operation["requestBody"].(node); ok {
				content := body["content"].(node)["application/json"].(node)
				o.body, o.bodies = content["schema"].(node), map[string]any{}
				for name, example := range content["examples"].(node) {
					o.bodies[name] = example.(node)["value"]
				}
			}
			for status, answer := range operation["responses"].(node) {
				o.answers[status] = d.follow(answer.(node))
			}
			all[o.id] = o
		}
	}
	return all
}

// codes returns the codes that an answer of the description may have; nil = it is no problem.
func (d description) codes(answer node) (codes []onced.Code) {
	content, _ := answer["content"].(node)
	problem, ok := content["application/problem+json"].(node)
	if !ok {
		return nil
	}
	for _, part := range d.parts(problem["schema"].(node)) {
		properties, _ := part["properties"].(node)
		code, _ := properties["code"].(node)
		for _, name := range list(code["enum"]) {
			codes = append(codes, onced.Code(name.(string)))
		}
	}
	return codes
}

// conforms checks an answer against what its operation says of its status.
func (d description) conforms(o described, w *httptest.ResponseRecorder) error {
	answer, ok := o.answers[strconv.Itoa(w.Code)]
	if !ok {
		return fmt.Errorf("the status %d is not described", w.Code)
	}
	content, _ := answer["content"].(node)
	if len(content) == 0 {
		if w.Body.Len() > 0 {
			return errors.New("it has a body, which is not described")
		}
		return nil
	}
	media, _, err := mime.ParseMediaType(w.Header().Get("Content-Type"))
	if err != nil {
		return err
	}
	described, ok := content[media].(node)
	if !ok {
		return fmt.Errorf("the media type %s is not described", media)
	}
	for name, header := range answerHeaders(answer) {
		value := w.Header().Get(name)
		var v any = value
		if n, err := strconv.Atoi(value); err == nil {
			v = float64(n)
		}
		if value == "" && name == "Retry-After" { // only where it makes sense to say
			continue
		}
		if err := d.check(d.follow(header.(node))["schema"].(node), v); err != nil {
			return fmt.Errorf("%s %w", name, err)
		}
	}
	if !strings.HasSuffix(media, "json") {
		return nil
	}
	var value any
	if err := json.Unmarshal(w.Body.Bytes(), &value); err != nil {
		return err
	}
	return d.check(described["schema"].(node), value)
}

func answerHeaders(answer node) node {
	headers, _ := answer["headers"].(node)
	return headers
}

// Every route is described, and everything described is a route, with the same parameters.
func TestDescriptionHasEveryRoute(t *testing.T) {
	d, err := readDescription()
	if err != nil {
		t.Fatal(err)
	}
	want, got := map[string]string{}, map[string]string{}
	for _, o := range d.byID {
		want[o.method+" "+o.path] = strings.Join(o.query, " ")
	}
	cfg := whole(&scripted{}, nil)
	cfg.Metrics = metrics.New(metrics.Options{Registry: prometheus.NewRegistry()})
	a := &api{Config: cfg.withDefaults()}
	pattern := regexp.MustCompile(`\{(\w+):[^}]*\}`)
	err = a.router().Walk(func(r *mux.Route, _ *mux.Router, _ []*mux.Route) error {
		template, err := r.GetPathTemplate()
		if err != nil {
			return err
		}
		path := pattern.ReplaceAllString(template, "{$1}")
		rt, isCall := r.GetHandler().(route)
		if !isCall {
			got["GET "+path] = ""
			return nil
		}
		for method, v := range rt.methods {
			got[method+" "+path] = strings.Join(slices.Sorted(slices.Values(v.params)), " ")
		}
		return nil
	})
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v, described (-) and routed (+):\n%s", err, diff)
	}
}

// Its codes are the table's.
func TestDescriptionHasEveryCode(t *testing.T) {
	d, err := readDescription()
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, info := range onced.Codes {
		want = append(want, string(info.Code))
	}
	for _, name := range list(d.follow(node{"$ref": "#/components/schemas/Code"})["enum"]) {
		got = append(got, name.(string))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The members of each body are those that the handler takes, and its examples are taken.
func TestDescriptionHasEveryMember(t *testing.T) {
	d, err := readDescription()
	if err != nil {
		t.Fatal(err)
	}
	expected := regexp.MustCompile(`expected only ([a-z_0-9, ]+)"`)
	for _, o := range d.byID {
		if o.body == nil {
			continue
		}
		w := d.send(o, whole(&scripted{}, nil), `{"no_such_member":1}`)
		m := expected.FindStringSubmatch(w.Body.String())
		if m == nil {
			t.Errorf("%s: %s", o.id, w.Body)
			continue
		}
		want := slices.Sorted(strings.SplitSeq(m[1], ", "))
		schema := d.follow(o.body)
		if got := slices.Sorted(maps.Keys(schema["properties"].(node))); !slices.Equal(got, want) || schema["additionalProperties"] != false {
			t.Errorf("%s takes %v, described are %v", o.id, want, got)
		}
		for name, example := range o.bodies {
			text, err := json.Marshal(example)
			if err != nil {
				t.Fatal(err)
			}
			var value any
			if err := json.Unmarshal(text, &value); err != nil {
				t.Fatal(err)
			}
			if err := d.check(o.body, value); err != nil {
				t.Errorf("%s: the example %s %v", o.id, name, err)
			}
			if w := d.send(o, whole(fitting(o.id), nil), string(text)); w.Code >= 300 || strings.Contains(w.Body.String(), `"status":4`) {
				t.Errorf("%s: the example %s is answered with %d %s", o.id, name, w.Code, w.Body)
			}
		}
	}
}

// fitting is a Keeper whose answer fits a call.
func fitting(operation string) *scripted {
	k := &scripted{record: running, result: onced.ReserveResult{Record: running}}
	if operation == "complete" || operation == "resolve" || operation == "get" {
		k.record = completed
	}
	k.page.Records = []onced.Record{completed, running}
	return k
}

// whole is the configuration of an API with every call, whose Admin's answer is err, or one that fits.
func whole(k onced.Keeper, err error) Config {
	cfg := config(k)
	cfg.Admin = &admin{member: onced.Member{ID: "n4", Address: "10.0.0.4:8481", Role: "learner"}, backup: backupOf("all", 3), err: err}
	return cfg
}

// send sends a request of an operation with all of its example parameters, and with body, "" for
// the first example's.
func (d description) send(o described, cfg Config, body string, headers ...string) *httptest.ResponseRecorder {
	path, query := o.path, url.Values{}
	for _, p := range o.params {
		example := fmt.Sprint(p["example"])
		switch name := p["name"].(string); {
		case p["example"] == nil:
		case p["in"] == "path":
			path = strings.Replace(path, "{"+name+"}", url.PathEscape(example), 1)
		case p["in"] == "query":
			query.Set(name, example)
		case p["in"] == "header":
			headers = append([]string{name, example}, headers...)
		}
	}
	if body == "" && o.body != nil {
		text, err := json.Marshal(o.bodies[slices.Sorted(maps.Keys(o.bodies))[0]])
		if err != nil {
			panic(err)
		}
		body = string(text)
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return do(cfg, o.method, path, body, headers...)
}

// Every status of every operation, and every code of it, is one that the handlers answer with, as
// it is described.
func TestDescriptionIsTrue(t *testing.T) {
	d, err := readDescription()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range d.byID {
		for status, answer := range o.answers {
			codes := d.codes(answer)
			if codes == nil {
				t.Run(o.id+"/"+status, func(t *testing.T) { d.exercise(t, o, status, "") })
			}
			for _, code := range codes {
				t.Run(o.id+"/"+string(code), func(t *testing.T) { d.exercise(t, o, status, code) })
			}
		}
	}
}

// exercise brings one answer about.
func (d description) exercise(t *testing.T, o described, status string, code onced.Code) {
	ring := &keyring{t: t}
	client, operator := ring.add("acme", RoleClient, ""), ring.add("acme", RoleOperator, "")
	keeper := fitting(o.id)
	cfg := secured(ring, keeper, false)
	cfg.Admin = whole(keeper, nil).Admin
	cfg.Cluster = fixed{status: onced.ClusterStatus{NodeID: "n1", Role: "leader", Leader: "n1", Members: []onced.Member{{ID: "n1", Address: "h:1", Voter: true, Role: "leader"}}}}
	headers := []string{"Authorization", "Bearer " + operator}
	body := ""
	switch code {
	case "":
		if o.id == "reserve" && status == "200" {
			keeper.result = onced.ReserveResult{Replayed: true, Record: completed}
		}
	case onced.CodeUnauthenticated:
		headers = nil
	case onced.CodeForbidden:
		headers = []string{"Authorization", "Bearer " + client}
		if !o.operator { // a client may, but not for this tenant
			o.params = slices.DeleteFunc(slices.Clone(o.params), func(p node) bool { return p["name"] == TenantHeader })
			headers = append(headers, TenantHeader, "globex")
		}
	case onced.CodeKeyInvalid:
		o.path = strings.Replace(o.path, "{key}", "%00", 1)
	case onced.CodeInvalidRequest:
		o.params = append(slices.Clone(o.params), node{"name": "no_such", "in": "query", "example": "x"})
		if o.id == "problem" {
			o.params = []node{{"name": "code", "in": "path", "example": "no_such"}}
		}
		if refused, err := strconv.Atoi(status); err == nil && refused > 400 && o.operator { // what the cluster refuses has a status of its own
			o.params = o.params[:len(o.params)-1]
			cfg.Admin = whole(keeper, onced.RefuseMembership(refused, "so")).Admin
		}
	case onced.CodeRequestTooLarge:
		body = strings.Repeat(" ", maxBatchBytes+1)
	case onced.CodeResponseTooLarge:
		cfg.MaxResponseBytes = 1
	case onced.CodeUnavailable:
		cfg.Cluster = fixed{err: errors.New("no leader")}
		cfg.Admin = whole(keeper, onced.Problemf(code, "so")).Admin
		keeper.err = &onced.Problem{Code: code, Detail: "so", Record: &running}
	default:
		keeper.err = &onced.Problem{Code: code, Detail: "so", Record: &running}
	}
	w := d.send(o, cfg, body, headers...)
	if strconv.Itoa(w.Code) != status || code != "" && !strings.Contains(w.Body.String(), `"code":"`+string(code)+`"`) {
		t.Fatalf("got %d %s", w.Code, w.Body)
	}
	if err := d.conforms(o, w); err != nil {
		t.Errorf("%d %s: %v", w.Code, w.Body, err)
	}
}

// What the handlers refuse is described too, wherever a path is one of theirs.
func TestRefusalsAreDescribed(t *testing.T) {
	d, err := readDescription()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range refusals() {
		if c.status == 404 || c.name == "key empty, get" {
			continue // no path of theirs
		}
		o, ok := d.operationOf(c.method, c.path)
		if !ok {
			t.Errorf("%s: no operation is at %s %s", c.name, c.method, c.path)
			continue
		}
		if err := d.conforms(o, do(config(&scripted{}), c.method, c.path, c.body, c.headers...)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// A body that is too large is refused as described by every call that takes one.
func TestSizesAreDescribed(t *testing.T) {
	d, err := readDescription()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range d.byID {
		if o.body == nil {
			continue
		}
		if w := d.send(o, whole(&scripted{}, nil), strings.Repeat(" ", maxBatchBytes+1)); w.Code != 413 || d.conforms(o, w) != nil {
			t.Errorf("%s: %d %s: %v", o.id, w.Code, w.Body, d.conforms(o, w))
		}
	}
}

// operationOf returns the operation of a request.
func (d description) operationOf(method, target string) (described, bool) {
	path, _, _ := strings.Cut(target, "?")
	for _, o := range d.byID {
		if o.method == method && d.pattern("^"+d.pattern(`\\\{\w+\\\}`).ReplaceAllString(regexp.QuoteMeta(o.path), `[^/]*`)+"$").MatchString(path) {
			return o, true
		}
	}
	return described{}, false
}

// The description is served, and its own checker finds what is not described.
func TestDescriptionIsServed(t *testing.T) {
	w := do(config(&scripted{}), "GET", "/openapi.yaml", "")
	if w.Code != 200 || !strings.HasPrefix(w.Body.String(), "openapi: 3.1.0\n") || w.Header().Get("Content-Type") != "application/yaml" {
		t.Errorf("%d %v %.80s", w.Code, w.Header(), w.Body)
	}
	d, err := readDescription()
	if err != nil {
		t.Fatal(err)
	}
	released := node{"$ref": "#/components/schemas/Released"}
	for _, bad := range []any{1.0, map[string]any{"key": "k"}, map[string]any{"key": "k", "state": "unknown"}, map[string]any{"key": 1.0, "state": "absent"}, map[string]any{"key": "k", "state": "absent", "more": 1.0}} {
		if d.check(released, bad) == nil {
			t.Errorf("%v is taken for a release's answer", bad)
		}
	}
	if err := d.check(released, map[string]any{"key": "k", "state": "absent"}); err != nil {
		t.Error(err)
	}
}
