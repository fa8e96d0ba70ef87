package gateway

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestEveryOptionIsDocumented holds the tables of docs/gateway.md to the options that there are, and their defaults to
// those in force.
func TestEveryOptionIsDocumented(t *testing.T) {
	raw, err := os.ReadFile("../docs/gateway.md")
	if err != nil {
		t.Fatal(err)
	}
	_, page, ok := strings.Cut(string(raw), "\n## Every option\n")
	if !ok {
		t.Fatal("there is no section of every option")
	}
	page, _, _ = strings.Cut(page, "\n## ")
	listed := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z0-9_.\\[\\]]+)` \\| (.*?) \\|").FindAllStringSubmatch(page, -1) {
		if _, twice := listed[row[1]]; twice {
			t.Errorf("%s is listed twice", row[1])
		}
		listed[row[1]] = strings.Trim(row[2], "`")
	}
	var there []string
	optionsOf(reflect.TypeFor[Config](), "", &there)
	for _, name := range there {
		if _, ok := listed[name]; !ok {
			t.Errorf("the option %s is not listed", name)
		}
	}
	for name := range listed {
		if !slices.Contains(there, name) {
			t.Errorf("the option %s is listed, but there is none", name)
		}
	}
	checkDefaults(t, listed)
}

// optionsOf lists the options of a block, those of a block within it by their way.
func optionsOf(block reflect.Type, way string, names *[]string) {
	for i := range block.NumField() {
		f := block.Field(i)
		name, inner := way+f.Tag.Get("yaml"), f.Type
		switch inner.Kind() {
		case reflect.Pointer:
			inner = inner.Elem()
		case reflect.Slice:
			inner, name = inner.Elem(), name+"[]"
		}
		if inner.Kind() == reflect.Struct {
			optionsOf(inner, name+".", names)
			continue
		}
		*names = append(*names, strings.TrimSuffix(name, "[]"))
	}
}

// checkDefaults compares what the page says with what a block gets that says nothing.
func checkDefaults(t *testing.T, listed map[string]string) {
	t.Helper()
	c := Config{Upstream: "http://h", Tenant: "single", Routes: []Route{{Match: "POST /charge"}}, Blobs: &Blobs{Dir: "/d"}}
	said := c
	said.DetectWindow, said.MaxBodyMemory = Duration(listed["detect_window"]), Size(listed["max_body_memory"])
	said.HeaderTimeout, said.BodyTimeout, said.MinBodyRate = Duration(listed["header_timeout"]), Duration(listed["body_timeout"]), Size(listed["min_body_rate"])
	said.Blobs = &Blobs{Dir: "/d", MaxBlob: Size(listed["blobs.max_blob"]), Timeout: Duration(listed["blobs.timeout"])}
	of := func(option string) string { return listed["routes[]."+option] }
	said.Routes = []Route{{
		Match: "POST /charge", Key: of("key"), Scope: of("scope"), Contract: of("contract"), OnUnknown: of("on_unknown"),
		Lease: Duration(of("lease")), Timeout: Duration(of("timeout")), Retention: Duration(of("retention")), Tombstone: Duration(of("tombstone")), Wait: Duration(of("wait")),
		Store: listOf(of("store")), Release: listOf(of("release")), MaxRequest: Size(of("max_request")), MaxResponse: Size(of("max_response")), MaxConcurrent: Count(of("max_concurrent")),
	}}
	v := reflect.ValueOf(said.Routes[0])
	for i := range v.NumField() {
		switch name := v.Type().Field(i).Tag.Get("yaml"); name {
		case "key_pattern", "probe", "fingerprint", "keep_headers", "reuse_connections", "retention_by_status": // nothing, unless said
		default:
			if v.Field(i).IsZero() {
				t.Errorf("the page says no default of %s", name)
			}
		}
	}
	documented, err := compile(said, nil)
	if err != nil {
		t.Fatal(err)
	}
	silent, err := compile(c, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, t := range []*table{documented, silent} {
		t.routes[0].digest = nil
	}
	if !reflect.DeepEqual(documented, silent) {
		t.Errorf("the defaults on the page are not those in force:\n%+v %+v\n%+v %+v", documented, documented.routes[0], silent, silent.routes[0])
	}
	if silent.detectWindow != time.Minute || silent.pace != (pace{10 * time.Second, 16 << 10}) {
		t.Errorf("%+v", silent)
	}
}

func listOf(text string) []string {
	return strings.FieldsFunc(strings.Trim(text, "[]"), func(c rune) bool { return c == ',' || c == ' ' })
}
