package explain

import (
	"net/http/httptest"
	"strings"
	"testing"

	"onced"
)

func TestEveryCodeIsExplained(t *testing.T) {
	if len(explanations) != len(onced.Codes) {
		t.Errorf("there are %d explanations of %d codes", len(explanations), len(onced.Codes))
	}
	for _, info := range onced.Codes {
		e := explanations[info.Code]
		if e.Happened == "" || e.Again == "" || e.Key == "" {
			t.Errorf("%s is not explained", info.Code)
		}
		for accept, want := range map[string]string{"": "text/html", "text/html, text/plain;q=0.5": "text/html", "text/plain": "text/plain"} {
			r := httptest.NewRequest("GET", "/", nil)
			r.Header.Set("Accept", accept)
			w := httptest.NewRecorder()
			if !One(w, r, "/here/", info.Code) {
				t.Fatalf("there is no page of %s", info.Code)
			}
			body := w.Body.String()
			if !strings.HasPrefix(w.Header().Get("Content-Type"), want) || !strings.Contains(body, string(info.Code)) || strings.Contains(body, "<") != (want == "text/html") {
				t.Errorf("%s as %q: %v\n%s", info.Code, accept, w.Header(), body)
			}
			if want == "text/plain" && !strings.Contains(body, e.Happened) {
				t.Errorf("%s does not say what happened:\n%s", info.Code, body)
			}
		}
	}
}

// The pages lead to each other where they are shown, and nowhere else.
func TestThePagesLeadToEachOther(t *testing.T) {
	r := httptest.NewRequest("GET", "/", nil)
	one, all := httptest.NewRecorder(), httptest.NewRecorder()
	One(one, r, "/here/", onced.CodeUnavailable)
	All(all, r, "/here/")
	for _, want := range []string{`href="/here/unavailable"`, `href="/here/"`} {
		if !strings.Contains(one.Body.String(), want) {
			t.Errorf("the page has no %s", want)
		}
	}
	if n := strings.Count(all.Body.String(), `href="/here/`); n != len(onced.Codes) || strings.Count(all.Body.String(), "href=") != n {
		t.Errorf("the list has %d links, there are %d codes:\n%s", n, len(onced.Codes), all.Body)
	}
}

func TestNoPageOfAnotherName(t *testing.T) {
	w := httptest.NewRecorder()
	if One(w, httptest.NewRequest("GET", "/", nil), "/here/", "nonsense") || w.Body.Len() > 0 {
		t.Fatalf("there is one: %s", w.Body)
	}
}
