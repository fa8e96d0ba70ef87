package gateway

import (
	"net/url"
	"strings"
	"testing"
	"time"
)

func tableOf(t testing.TB, routes ...Route) *table {
	t.Helper()
	table, err := compile(Config{Upstream: "http://h", Tenant: "single", Routes: routes}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// What choose decides: the match of the route, "" for unprotected, "400" for ambiguous.
func TestChoose(t *testing.T) {
	table := tableOf(t, Route{Match: "POST /health/*", Key: "off"}, Route{Match: "POST /pay/{id}"}, Route{Match: "/v1/*"}, Route{Match: "PUT /thing"}, Route{Match: "POST /caf%C3%A9"})
	for _, tc := range []struct{ method, path, want string }{
		{"POST", "/pay/1", "POST /pay/{id}"}, {"POST", "/pay/a%2Fb", "POST /pay/{id}"}, {"POST", "/pay/1;v=2", "POST /pay/{id}"},
		{"POST", "/pay/1/", "POST /pay/{id}"}, {"POST", "/pay", ""}, {"POST", "/pay/", ""}, {"POST", "/pay/1/2", ""}, {"post", "/pay/1", "POST /pay/{id}"},
		{"POST", "/pay/..", "POST /pay/{id}"}, {"POST", "/pay//1", "400"}, {"POST", "/health/../pay/1", "400"}, {"POST", "/health/x", ""}, {"POST", "/health/..", ""},
		{"POST", "/v1", "/v1/*"}, {"PATCH", "/v1/", "/v1/*"}, {"POST", "/v1/a/b", "/v1/*"}, {"POST", "/V1/a", "/v1/*"}, {"POST", "/v1/../pay/1", "400"},
		{"PUT", "/v1/a", ""}, {"GET", "/v1/a", ""}, {"PUT", "/thing", "PUT /thing"}, {"POST", "/thing", ""}, {"PUT", "//thing", "400"}, {"GET", "//thing", ""},
		{"POST", "/caf%c3%a9", "POST /caf%C3%A9"}, {"POST", "/CAF%C3%89", "POST /caf%C3%A9"}, {"POST", "/", ""}, {"POST", "//", ""}, {"POST", "", ""},
		{"POST", "/v1./a", "400"}, {"POST", "/x%00/../../v1/a", "400"}, {"POST", "/v1%2Fa", "400"}, {"POST", "/x/%2e%2e/v1", "400"}, {"POST", "/x/%252e%252e/v1", "400"},
		{"POST", "/x\\..\\v1", "400"}, {"POST", "//v1/a", "400"}, {"POST", "//h/v1/a", "400"}, {"POST", "///v1", "400"}, {"POST", "/x/..;p/v1", "400"},
		// An upstream may have one of the habits and not another: here it is the backslash that is no slash, an empty segment, a blank one, or
		// one whose escapes are decoded once, that ".." removes.
		{"POST", `/0\0%2f..%2fv1`, "400"}, {"PUT", "/thing//..", "400"}, {"PUT", "/thing/%20/..", "400"}, {"POST", "/a%252fb%2f..%2fv1", "400"}, {"PUT", "/thing/x/..%20", "400"},
		{"POST", "/" + strings.Repeat("a;", maxOddPath/2), "400"}, {"POST", "/" + strings.Repeat("aa", maxOddPath/2), ""},
	} {
		c, err := table.choose(tc.method, tc.path)
		got := ""
		switch {
		case err != nil:
			got = "400"
		case c.route.protected():
			got = c.route.pattern.text
		}
		if got != tc.want {
			t.Errorf("%s %s: got %q, expected %q (%v)", tc.method, tc.path, got, tc.want, err)
		}
	}
}

func TestADeeplyEncodedPathCostsNoTime(t *testing.T) {
	table := tableOf(t, Route{Match: "POST /charge"})
	start := time.Now()
	table.choose("POST", "/%"+strings.Repeat("25", 32<<10)+"63harge") // as much as the server takes
	table.choose("POST", strings.Repeat("/..;a%2e", maxOddPath/8))
	table.choose("POST", strings.Repeat(`//%255c..;%00`, maxOddPath/13))
	if took := time.Since(start); took > 5*time.Second {
		t.Fatalf("it took %v", took)
	}
}

// An upstream that reads the path in any of the common ways must not find a protected
// route where the gateway found none.
func FuzzChoose(f *testing.F) {
	for _, seed := range []string{"/charge", "//charge", "/a/../charge", "/%63harge", "/charge;x", "/charge%2f..%2fcharge", `/\charge`, `/0\0%2f..%2fChArge`, "/charge//..", "/a%252fb%2f..%2fcharge", "/./charge/", "/%2e%2e/charge", "/a%3b/../charge", "/charge%00x", "/a%252f..%252fcharge"} {
		f.Add(seed)
	}
	table := tableOf(f, Route{Match: "POST /charge"})
	f.Fuzz(func(t *testing.T, target string) {
		u, err := url.ParseRequestURI(target)
		if err != nil || u.Host != "" {
			return
		}
		c, err := table.choose("POST", u.EscapedPath())
		if err != nil || c.route.protected() {
			return
		}
		for _, segment := range [2]string{u.Path, u.EscapedPath()} {
			clean := "/" + strings.Trim(u.ResolveReference(&url.URL{Path: segment}).Path, "/")
			if strings.EqualFold(clean, "/charge") {
				t.Fatalf("%q passes unprotected, yet reads as %q", target, clean)
			}
		}
	})
}
