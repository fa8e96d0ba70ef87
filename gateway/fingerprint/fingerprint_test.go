package fingerprint

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"strings"
	"testing"
)

func digester(t testing.TB, o Options) *Digester {
	t.Helper()
	d, err := New([]byte("secret"), o)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// req is a POST of body with a media type.
func req(kind, body string) Request {
	r := Request{Method: "POST", Path: "/charge", Body: []byte(body), Raw: []byte(body), Header: map[string][]string{}}
	if kind != "" {
		r.Header["Content-Type"] = []string{kind}
	}
	return r
}

func TestEqualAndDifferent(t *testing.T) {
	const j = "application/json"
	multi := func(b, text string) Request {
		return req("multipart/form-data; boundary="+b, strings.ReplaceAll(text, "B", b))
	}
	part := "--B\r\nContent-Disposition: form-data; name=\"a\"\r\nX: 1\r\n\r\none\r\n--B\r\n\r\ntwo\r\n--B--\r\n"
	swapped := "--B\r\n\r\ntwo\r\n--B\r\nContent-Disposition: form-data; name=\"a\"\r\nX: 1\r\n\r\none\r\n--B--\r\n"
	for name, tc := range map[string]struct {
		a, b Request
		same bool
	}{
		"same":                       {req("", "x"), req("", "x"), true},
		"one byte":                   {req("", "x"), req("", "y"), false},
		"empty":                      {req("", ""), req("", "x"), false},
		"member order":               {req(j, `{"a":1,"b":[1,2]}`), req(j, "{ \"b\" : [1 ,2],\n\"a\":1 }"), true},
		"nested member order":        {req(j, `[{"a":{"x":1,"y":2}}]`), req(j, `[{"a":{"y":2,"x":1}}]`), true},
		"array order":                {req(j, `[1,2]`), req(j, `[2,1]`), false},
		"number literals":            {req(j, `{"a":1}`), req(j, `{"a":1.0}`), false},
		"exponents":                  {req(j, `100`), req(j, `1e2`), false},
		"minus zero":                 {req(j, `0`), req(j, `-0`), false},
		"large integers":             {req(j, `9007199254740992`), req(j, `9007199254740993`), false},
		"number and string":          {req(j, `{"a":1}`), req(j, `{"a":"1"}`), false},
		"escapes":                    {req(j, `{"\u0061":"\u20ac\/\ud83d\ude00\n"}`), req(j, `{"a":"€/😀\u000A"}`), true},
		"case of a string":           {req(j, `"a"`), req(j, `"A"`), false},
		"null and absent":            {req(j, `{"a":null}`), req(j, `{}`), false},
		"empty array and object":     {req(j, `[]`), req(j, `{}`), false},
		"structure":                  {req(j, `[[1],2]`), req(j, `[[1,2]]`), false},
		"repeated member":            {req(j, `{"a":1,"a":1}`), req(j, `{"a":1}`), false},
		"repeated members swapped":   {req(j, `{"a":1,"a":2}`), req(j, `{"a":2,"a":1}`), false},
		"repeated by escape":         {req(j, `{"a":1,"\u0061":2}`), req(j, `{"\u0061":2,"a":1}`), false},
		"repeated is raw":            {req(j, `{"a":1,"a":2}`), req(j, `{"a":1, "a":2}`), false},
		"invalid JSON is raw":        {req(j, `{"a":1,}`), req(j, `{"a":1, }`), false},
		"trailing data is raw":       {req(j, `{} {}`), req(j, `{}  {}`), false},
		"lone surrogate is raw":      {req(j, `"\ud800" `), req(j, `"\ud800"`), false},
		"deep is raw":                {req(j, strings.Repeat("[", 200)+strings.Repeat("]", 200)), req(j, strings.Repeat("[", 200)+strings.Repeat("]", 200)+" "), false},
		"JSON in text is raw":        {req("text/plain", `{"a":1}`), req("text/plain", `{"a": 1}`), false},
		"+json":                      {req("application/vnd.x+json", `{"a":1}`), req("application/vnd.x+json", `{"a": 1}`), true},
		"media type":                 {req(j, `{}`), req("text/json", `{}`), false},
		"parameter order":            {req(j+"; a=1; charset=UTF-8", `{}`), req("Application/JSON;charset=utf-8;A=1", `{}`), true},
		"parameter value":            {req(j+"; a=x", `{}`), req(j+"; a=X", `{}`), false},
		"form order is raw":          {req("application/x-www-form-urlencoded", "a=1&b=2"), req("application/x-www-form-urlencoded", "b=2&a=1"), false},
		"boundary":                   {multi("xyz", part), multi("other", part), true},
		"part order":                 {multi("xyz", part), multi("xyz", swapped), false},
		"part content":               {multi("xyz", part), multi("xyz", strings.Replace(part, "one", "uno", 1)), false},
		"part header":                {multi("xyz", part), multi("xyz", strings.Replace(part, "X: 1", "X: 2", 1)), false},
		"part header order":          {multi("xyz", part), multi("xyz", strings.Replace(part, "Content-Disposition: form-data; name=\"a\"\r\nX: 1", "x:1\r\nContent-Disposition: form-data; name=\"a\"", 1)), true},
		"epilogue is raw":            {multi("xyz", part+"more"), multi("other", part+"more"), false},
		"epilogue counts":            {multi("xyz", part+"more"), multi("xyz", part), false},
		"preamble counts":            {multi("xyz", "p\r\n"+part), multi("xyz", part), false},
		"multipart shift":            {multi("xyz", "--B\r\n\r\na\r\n--B\r\n\r\nb\r\n--B--"), multi("xyz", "--B\r\n\r\nab\r\n--B\r\n\r\n\r\n--B--"), false},
		"boundary as content":        {multi("xyz", "--B\r\n\r\na\r\n--Bx\r\n--B--"), multi("xyz", "--B\r\n\r\na\r\n--B--"), false},
		"unknown coding":             {Request{Body: []byte("x"), Coding: "br"}, Request{Body: []byte("x")}, false},
		"method":                     {Request{Method: "POST", Path: "/a"}, Request{Method: "PUT", Path: "/a"}, false},
		"method and path shift":      {Request{Method: "POST", Path: "/a"}, Request{Method: "POST/", Path: "a"}, false},
		"path":                       {Request{Path: "/a"}, Request{Path: "/b"}, false},
		"path and query shift":       {Request{Path: "/a", RawQuery: "b"}, Request{Path: "/ab"}, false},
		"query order":                {Request{RawQuery: "a=1&b=2"}, Request{RawQuery: "b=2&a=1"}, true},
		"query order within a name":  {Request{RawQuery: "a=1&b=3&a=2"}, Request{RawQuery: "a=2&b=3&a=1"}, false},
		"query order, name escaped":  {Request{RawQuery: "a%5b%5d=1&a[]=2"}, Request{RawQuery: "a[]=2&a%5b%5d=1"}, false},
		"query order, name's case":   {Request{RawQuery: "a=1&A=2"}, Request{RawQuery: "A=2&a=1"}, false},
		"query value":                {Request{RawQuery: "a=1"}, Request{RawQuery: "a=2"}, false},
		"query gone":                 {Request{RawQuery: "dry=1"}, Request{}, false},
		"query pair shift":           {Request{RawQuery: "a=1&b"}, Request{RawQuery: "a=1b"}, false},
		"query without value":        {Request{RawQuery: "a"}, Request{RawQuery: "a="}, false},
		"query plus":                 {Request{RawQuery: "a=b+c"}, Request{RawQuery: "a=b%20c"}, false},
		"header that does not count": {Request{Header: map[string][]string{"X": {"1"}}}, Request{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			d := digester(t, Options{})
			a, b := d.Sum(tc.a), d.Sum(tc.b)
			if (a == b) != tc.same {
				t.Fatalf("%s and %s; expected equal: %v", a, b, tc.same)
			}
		})
	}
}

func TestOptions(t *testing.T) {
	const j = "application/json"
	sum := func(o Options, r Request) string { return digester(t, o).Sum(r) }
	equal := func(o Options, a, b Request, same bool) {
		t.Helper()
		if (sum(o, a) == sum(o, b)) != same {
			t.Errorf("%+v: expected equal: %v for %q and %q", o, same, a.Body, b.Body)
		}
	}
	equal(Options{Body: Raw}, req(j, `{"a":1}`), req(j, `{"a": 1}`), false)
	equal(Options{Body: None}, req(j, "x"), req("text/plain", "y"), true)
	equal(Options{Body: None}, Request{RawQuery: "a"}, Request{RawQuery: "b"}, false)
	raw := req(j, "same")
	raw.Raw = []byte("as sent otherwise")
	equal(Options{Body: Raw}, req(j, "same"), raw, false)

	ignore := Options{IgnoreFields: []string{"/sent_at", "/meta/id", "/a~1b", "/list/0/t", "/list/1"}}
	equal(ignore, req(j, `{"sent_at":1,"x":1}`), req(j, `{"x":1,"sent_at":{"deep":[2]}}`), true)
	equal(ignore, req(j, `{"sent_at":1,"x":1}`), req(j, `{"x":1}`), true)
	equal(ignore, req(j, `{"sent_at":1,"x":1}`), req(j, `{"x":2,"sent_at":1}`), false)
	equal(ignore, req(j, `{"meta":{"id":1,"v":1}}`), req(j, `{"meta":{"id":2,"v":1}}`), true)
	equal(ignore, req(j, `{"id":1}`), req(j, `{"id":2}`), false)
	equal(ignore, req(j, `{"a/b":1}`), req(j, `{"a/b":2}`), true)
	equal(ignore, req(j, `{"list":[{"t":1},2,3]}`), req(j, `{"list":[{"t":9},8,3]}`), true)
	equal(ignore, req(j, `{"list":[{"t":1},2,3]}`), req(j, `{"list":[{"t":1},2,4]}`), false)
	equal(ignore, req(j, `{"list":[1,2]}`), req(j, `{"list":[1]}`), false)
	equal(ignore, req(j, `{"sent_at":{"a":1,"a":2}}`), req(j, `{"sent_at":{"a":1}}`), false)

	headers := Options{Headers: []string{"x-mode"}}
	with := func(values ...string) Request { return Request{Header: map[string][]string{"X-Mode": values}} }
	equal(headers, with("a"), with("b"), false)
	equal(headers, with("a"), with("a"), true)
	equal(headers, with("a", "b"), with("b", "a"), false)
	equal(headers, with("a", "b"), with("ab"), false)
	equal(headers, with(""), Request{}, false)

	for _, o := range []Options{{Body: "some"}, {IgnoreFields: []string{""}}, {IgnoreFields: []string{"a"}}, {IgnoreFields: []string{"/~"}}, {Body: None, IgnoreFields: []string{"/a"}}} {
		if _, err := New(nil, o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

// F75: whoever reads the table cannot guess a body from its fingerprint.
func TestItIsKeyed(t *testing.T) {
	r := req("", "1234")
	a, _ := New([]byte("one"), Options{})
	b, _ := New([]byte("two"), Options{})
	if a.Sum(r) == b.Sum(r) {
		t.Fatal("two secrets give one fingerprint")
	}
	plain := sha256.Sum256([]byte("1234"))
	for _, s := range []string{hex.EncodeToString(plain[:]), base64.RawURLEncoding.EncodeToString(plain[:])} {
		if strings.Contains(a.Sum(r), s) {
			t.Fatal("the fingerprint is the body's SHA-256")
		}
	}
}

// The digest is on disk: it must be the same in every release of this version.
func TestGolden(t *testing.T) {
	d := digester(t, Options{Headers: []string{"X-Mode"}, IgnoreFields: []string{"/t"}})
	for name, tc := range map[string]struct {
		r    Request
		want string
	}{
		"json": {Request{Method: "POST", Path: "/charge", RawQuery: "b=2&a=1", Body: []byte(`{"t":1,"b":[1,-2.50e3,"é",true,false,null],"a":{}}`),
			Header: map[string][]string{"Content-Type": {"application/json; charset=UTF-8"}, "X-Mode": {"a", "b"}}}, "f1:S1A-DhJdYzSfBNVd-_2UHonSwR8eO6zJ02T6BzUGre4"},
		"multipart": {Request{Method: "PATCH", Path: "/", Body: []byte("--b\r\nA: 1\r\n\r\nx\r\n--b\r\n\r\ny\r\n--b--\r\n"),
			Header: map[string][]string{"Content-Type": {"multipart/mixed; boundary=b"}}}, "f1:nG1ujj4pM81GCoQrQHQEJ4R7fL-0zexOoK6Il4FcaNc"},
		"raw": {Request{Method: "POST", Path: "/a", Body: []byte("x"), Coding: "br"}, "f1:t1E1Zm5Zlg58XNAgjTdmV3c8c8UbB43zwfulvllMM0s"},
	} {
		if got := d.Sum(tc.r); got != tc.want {
			t.Errorf("%s: got %s, expected %s", name, got, tc.want)
		}
	}
}
