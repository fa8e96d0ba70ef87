package gateway

import (
	"strings"
	"testing"
)

func TestBadLookUpsAreRefusedByName(t *testing.T) {
	for text, want := range map[string]string{
		"/charges?key={key}":          "is no look-up",
		"GET charges?key={key}":       "is no look-up",
		"GET http://h/charges/{key}":  "is no look-up",
		"POST /charges?key={key}":     "the method is POST, expected GET",
		"get /charges?key={key}":      "the method is get",
		"GET /charges":                "has no {key}",
		"GET /charges?key={Key}":      "{Key} stands for nothing",
		"GET /charges/{id}?key={key}": "{id} stands for nothing",
		"GET /charges?key={key":       `a "{" without its "}"`,
		"GET /charges?key}={key}":     `a "}" without its "{"`,
		"GET /charges?key={{key}}":    "stands for nothing",
		"GET /charges?key={key}#x":    "expected a plain path",
		"GET /charges key={key}":      "expected a plain path",
		`GET /charges\{key}`:          "expected a plain path",
		"GET //charges/{key}":         "more than one way",
		"GET /charges/../{key}":       "more than one way",
		"GET /charges/{key}.":         "more than one way",
		"GET /%zz/{key}":              "it is no path",
		"GET /charges;a/{key}":        "more than one way",
	} {
		r := Route{Match: "POST /accounts/{account}/charge", OnUnknown: "probe", Probe: text}
		err := Config{Upstream: "http://h", Tenant: "single", Routes: []Route{r}}.Validate()
		if err == nil || !strings.Contains(err.Error(), "routes[0] (POST /accounts/{account}/charge): probe: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, expected something with %q", text, err, want)
		}
		r.OnUnknown = "hold" // where it is not used it is judged all the same
		if err := (Config{Upstream: "http://h", Tenant: "single", Routes: []Route{r}}).Validate(); err == nil {
			t.Errorf("%s: is taken where it is not used", text)
		}
	}
}

// A value is percent-encoded for where it stands, and can neither leave its place nor become another value.
func TestLookUpsAreEncoded(t *testing.T) {
	match, err := parsePattern("POST /accounts/{account}/charge")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ text, key, want string }{
		{"GET /charges?key={key}", "k-1", "/charges?key=k-1"},
		{"GET /charges?key={key}&a={account}", "a&b=c#d/e?f+g h%20\"", "/charges?key=a%26b%3Dc%23d%2Fe%3Ff%2Bg%20h%2520%22&a=ac%2Fme"},
		{"GET /charges?{key}={key}", "../x", "/charges?..%2Fx=..%2Fx"},
		{"GET /by/{key}", "k:1,2=3@x", "/by/k:1%2C2=3@x"},
		{"GET /by/{key}.json?v=1", "k", "/by/k.json?v=1"},
		{"GET /by/{key}", "a b", "/by/a%20b"},
		{"GET /by/{key}", "a/b", ""},
		{"GET /by/{key}", "..", ""},
		{"GET /by/{key}", ".", ""},
		{"GET /by/{key}/x", "a;b", ""},
		{"GET /by/{key}", `a\b`, ""},
		{"GET /by/{key}", "50%", ""},
		{"GET /by/{key}", "a?b", ""},
		{"GET /by/{key}", "a#b", ""},
		{"GET /by/{account}?k={key}", "k", ""}, // the account has a slash
	} {
		p, err := parseProbe(tc.text, &match)
		if err != nil {
			t.Fatal(err)
		}
		u, err := p.render(func(name string) string {
			if name == keyVariable {
				return tc.key
			}
			return "ac/me"
		})
		if tc.want == "" {
			if err != errOddLookUp {
				t.Errorf("%s with %q is %v, %v", tc.text, tc.key, u, err)
			}
			continue
		}
		if err != nil || u.RequestURI() != tc.want {
			t.Errorf("%s with %q is %v, %v, expected %s", tc.text, tc.key, u, err, tc.want)
		}
	}
}
