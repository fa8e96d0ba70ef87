package main

import "testing"

// TestQuoteOdd: what stands in a column is never another key's, and never acts on the terminal.
func TestQuoteOdd(t *testing.T) {
	for text, want := range map[string]string{
		"order-42": "order-42", "a b": "a b", `a"b`: `a"b`, " a": `" a"`, "a ": `"a "`,
		`" a"`: `"\" a\""`, `"abc"`: `"\"abc\""`, "a\x1b[31m": `"a\x1b[31m"`, "a\nb": `"a\nb"`, "": "",
	} {
		if got := quoteOdd(text); got != want {
			t.Errorf("%q is shown as %s, expected %s", text, got, want)
		}
	}
}
