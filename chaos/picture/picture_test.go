package picture

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"

	"onced/chaos/history"
	"onced/internal/linear"
)

func TestDraw(t *testing.T) {
	told := linear.Answer{Outcome: "reserved", Owner: "a<b>", Token: 1, Attempt: 1}
	other := linear.Answer{Outcome: "reserved", Owner: "b", Token: 2, Attempt: 1}
	b := &history.Book{
		Calls: []porcupine.Operation{
			linear.Operation(1, linear.Call{Verb: linear.Reserve, Key: "k", Owner: "a<b>", Begin: 1e6, End: 2e6}, told),
			linear.Operation(2, linear.Call{Verb: linear.Reserve, Key: "k", Owner: "b", Begin: 3e6, End: 4e6}, other),
			linear.Operation(3, linear.Call{Verb: linear.Renew, Key: "k", Token: 1, Begin: 5e6, End: 9e6}, linear.Answer{Lost: true}),
			linear.Operation(4, linear.Call{Verb: linear.Get, Key: "k", Begin: 6e6, End: 7e6}, linear.Answer{Outcome: "key_not_found"}),
			linear.Operation(3, linear.Call{Verb: linear.Get, Key: "else", Begin: 5e6, End: 9e6}, told),
		},
		Finals: []history.Final{{Key: "k", Node: "n1", State: "absent", At: 8e6}},
	}
	bars := OfKey(b, "k")
	if len(bars) != 5 || bars[3].Odd || bars[0].Place != 1 || bars[1].Place != 0 || !bars[1].Odd || bars[2].Mark != Lost {
		t.Fatalf("%+v", bars)
	}
	var out bytes.Buffer
	err := Draw(&out, Page{Title: "k", Finding: "two <owners>", Bars: bars, Windows: []history.Window{
		{Fault: "kill-leader", Text: "kill-leader: n1", From: 1e6, Until: 6e6}, {Fault: "cut-all", Text: "cut-all: all", From: 20e6, Until: 30e6}}})
	if err != nil {
		t.Fatal(err)
	}
	page := out.String()
	for _, want := range []string{"two &lt;owners&gt;", "a&lt;b&gt;", "kill-leader: n1", "client 02", `class="done odd"`, "after healing, n1"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, never := range []string{"<owners>", "a<b>", "cut-all", "<script", "http://", "https://"} {
		if strings.Contains(page, never) {
			t.Errorf("the page has %q", never)
		}
	}
	svg := page[strings.Index(page, "<svg"):strings.Index(page, "</svg>")] + "</svg>"
	for d := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the drawing is not well-formed: %v", err)
		}
	}
}
