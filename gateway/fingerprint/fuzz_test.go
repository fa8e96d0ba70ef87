package fingerprint

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"
)

// What is compared by meaning is exactly what a strict reader takes for JSON, and white
// space does not change it.
func FuzzCanonicalJSON(f *testing.F) {
	for _, seed := range []string{`{"a":1,"b":[true,null,"x\u00e9"]}`, `"\ud83d\ude00"`, `-0.5e+10`, `[[],{}]`, `{"a":1,"a":2}`, `01`, "\ufeff{}", `"\ud800"`, "[1,]", `{"a"}`, " 1 "} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		canonical, ok := canonicalJSON(body, nil)
		if !ok {
			return
		}
		if !json.Valid(body) || !utf8.Valid(body) {
			t.Fatalf("%q is taken for JSON", body)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, body); err != nil {
			t.Fatal(err)
		}
		again, ok := canonicalJSON(compact.Bytes(), nil)
		if !ok || !bytes.Equal(canonical, again) {
			t.Fatalf("%q and %q differ", body, compact.Bytes())
		}
		// Decoding and encoding again sorts members and changes escapes, but no meaning.
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.UseNumber()
		var value any
		if err := decoder.Decode(&value); err != nil {
			t.Fatal(err)
		}
		encoded, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		if again, ok = canonicalJSON(encoded, nil); !ok || !bytes.Equal(canonical, again) {
			t.Fatalf("%q and %q differ", body, encoded)
		}
	})
}

// No request makes Sum fail, and its body always counts.
func FuzzSum(f *testing.F) {
	f.Add("application/json", "a=1&b", []byte(`{"a":1}`))
	f.Add("multipart/form-data; boundary=x", "", []byte("--x\r\n\r\na\r\n--x--"))
	f.Add("multipart/mixed; boundary=\"\"", "%zz&&=", []byte("--\r\n"))
	d, err := New(nil, Options{Headers: []string{"X"}, IgnoreFields: []string{"/a", "/0/b"}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, kind, query string, body []byte) {
		r := Request{Method: "POST", Path: "/", RawQuery: query, Body: body, Raw: body, Header: map[string][]string{"Content-Type": {kind}}}
		if again := d.Sum(r); again != d.Sum(r) {
			t.Fatal("two digests of one request differ")
		}
		longer := r
		longer.Body = append(append([]byte(nil), body...), 'x')
		if d.Sum(r) == d.Sum(longer) {
			t.Fatalf("%q and %q are the same", body, longer.Body)
		}
	})
}
