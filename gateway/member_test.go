package gateway

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestSetMember(t *testing.T) {
	for body, want := range map[string]string{
		`{}`:                     `{"replayed":true}`,
		" {\n} ":                 " {\"replayed\":true\n} ",
		`{"a":1}`:                `{"replayed":true,"a":1}`,
		"{\r\n\t\"a\": 1.00 }\n": "{\"replayed\":true,\r\n\t\"a\": 1.00 }\n",
		`{"b":1e400,"a":12345678901234567890.10,"b":[ ]}`: `{"replayed":true,"b":1e400,"a":12345678901234567890.10,"b":[ ]}`,
		`{"replayed":false}`:                              `{"replayed":true}`,
		`{"a":1, "replayed" : {"x":[1,"}"]} ,"b":2}`:      `{"a":1, "replayed" : true ,"b":2}`,
		`{"replayed":null,"replayed": "" }`:               `{"replayed":true,"replayed": true }`,
		`{"\u0072eplayed":0}`:                             `{"\u0072eplayed":true}`,
		`{"Replayed":0}`:                                  `{"replayed":true,"Replayed":0}`,
		`{"a":{"replayed":false},"b":["replayed"]}`:       `{"replayed":true,"a":{"replayed":false},"b":["replayed"]}`,
		`{"a":"replayed","replayed\\":1}`:                 `{"replayed":true,"a":"replayed","replayed\\":1}`,
		"{\"\xff\":\"\xfe\"}":                             "{\"replayed\":true,\"\xff\":\"\xfe\"}",
	} {
		got, ok := setMember([]byte(body), "replayed", "true")
		if !ok || string(got) != want {
			t.Errorf("%q became %q, %v; expected %q", body, got, ok, want)
		}
	}
	for _, body := range []string{"", " ", "null", "[]", `[{"a":1}]`, `"{}"`, "1", "{", `{"a":1}}`, `{"a":1} {}`, `{"a":1,}`, `{a:1}`, `{"a":01}`, "\ufeff{}", "{}\x00", `{"a":1}x`} {
		if got, ok := setMember([]byte(body), "replayed", "true"); ok {
			t.Errorf("%q is no JSON object, and became %q", body, got)
		}
	}
}

// space, literals and names are drawn as text, so that what is expected is known without reading JSON.
var (
	spaces   = rapid.SampledFrom([]string{"", "", " ", "\n", "\t", "\r\n  "})
	literals = rapid.SampledFrom([]string{"null", "true", "false", "0", "-0", "1.00", "1E+2", "12345678901234567890123", `""`, `"{\"replayed\":1}"`, `"é\u00e9"`, `"\\"`, "[]", "{}"})
	names    = rapid.SampledFrom([]string{"a", "b", "Replayed", "replayed ", "", `\"`, "x\\u0000", "é"})
	ours     = rapid.SampledFrom([]string{"replayed", `\u0072eplayed`, `replaye\u0064`})
)

func value(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		if depth == 0 || rapid.Bool().Draw(t, "plain") {
			return literals.Draw(t, "literal")
		}
		var parts []string
		object := rapid.Bool().Draw(t, "object")
		for range rapid.IntRange(0, 3).Draw(t, "size") {
			part := spaces.Draw(t, "before") + value(depth-1).Draw(t, "element") + spaces.Draw(t, "after")
			if object {
				part = fmt.Sprintf(`"%s"%s:`, rapid.OneOf(names, ours).Draw(t, "name"), spaces.Draw(t, "space")) + part
			}
			parts = append(parts, part)
		}
		if object {
			return "{" + strings.Join(parts, ",") + "}"
		}
		return "[" + strings.Join(parts, ",") + "]"
	})
}

// Whatever object comes, the result is that object with the member, and every other byte is where it was.
func TestSetMemberChangesNothingElse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		begin := spaces.Draw(t, "begin") + "{"
		end := spaces.Draw(t, "inside") + "}" + spaces.Draw(t, "end")
		own, before, after := false, []string{}, []string{}
		for range rapid.IntRange(0, 5).Draw(t, "members") {
			name, isOwn := names.Draw(t, "name"), rapid.Bool().Draw(t, "own")
			if isOwn {
				name, own = ours.Draw(t, "our name"), true
			}
			text, replaced := value(3).Draw(t, "value"), "true"
			if !isOwn {
				replaced = text
			}
			head := fmt.Sprintf(`%s"%s"%s:%s`, spaces.Draw(t, "1"), name, spaces.Draw(t, "2"), spaces.Draw(t, "3"))
			tail := spaces.Draw(t, "4")
			before, after = append(before, head+text+tail), append(after, head+replaced+tail)
		}
		body := begin + strings.Join(before, ",") + end
		want := begin + strings.Join(after, ",") + end
		switch {
		case own:
		case len(before) == 0:
			want = begin + `"replayed":true` + end
		default:
			want = begin + `"replayed":true,` + strings.Join(after, ",") + end
		}
		got, ok := setMember([]byte(body), "replayed", "true")
		if !ok || string(got) != want {
			t.Fatalf("%q became\n%q, %v; expected\n%q", body, got, ok, want)
		}
		checkReplayed(t, []byte(body), got)
	})
}

type failing interface {
	Helper()
	Fatalf(string, ...any)
}

// checkReplayed wants got to be body with the member.
func checkReplayed(t failing, body, got []byte) {
	t.Helper()
	var before, after map[string]json.RawMessage
	if err := json.Unmarshal(body, &before); err != nil {
		t.Fatalf("%q is not an object: %v", body, err)
	}
	if err := json.Unmarshal(got, &after); err != nil {
		t.Fatalf("%q became %q: %v", body, got, err)
	}
	before["replayed"] = json.RawMessage("true")
	if diff := cmp.Diff(before, after); diff != "" {
		t.Fatalf("%q became %q:\n%s", body, got, diff)
	}
}

func FuzzSetMember(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":1}`, " {\n\"a\" : [ 1.0 , {} ] } ", `{"replayed":{"a":"}"},"b":2,"replayed":1}`, `{"\u0072eplayed":0}`, `[]`, `"{"`, `{"a":1}{`, "\ufeff{}",
		"{\"\xff\":1}", `{"a\"":"\\"}`, `{"":""}`, `null`, `{"a":1e999}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, ok := setMember(body, "replayed", "true")
		var object map[string]json.RawMessage
		if isObject := json.Unmarshal(body, &object) == nil && object != nil; ok != isObject {
			t.Fatalf("%q: taken for an object: %v, it is one: %v", body, ok, isObject)
		}
		if !ok {
			return
		}
		checkReplayed(t, body, got)
		if again, ok := setMember(got, "replayed", "true"); !ok || string(again) != string(got) {
			t.Fatalf("%q became %q, and then %q", body, got, again)
		}
		if _, own := object["replayed"]; own {
			return
		}
		at := strings.IndexByte(string(body), '{') + 1
		rest := strings.TrimPrefix(string(got[at:]), `"replayed":true`)
		if len(object) > 0 {
			rest = strings.TrimPrefix(rest, ",")
		}
		if string(body[:at])+rest != string(body) {
			t.Fatalf("%q became %q, which is more than the member", body, got)
		}
	})
}
