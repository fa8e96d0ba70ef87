package fingerprint

import (
	"net/url"
	"sort"
	"strings"
)

// writeQuery writes the query so that the order between different names does not
// count and the order within one name does.
//
// Pairs are grouped by the decoded name in lower case, the widest sense in which
// an upstream may take two names for one, and compared as they were written:
// "+" and "%20", or "a" and "a=", are not the same to every upstream.
func writeQuery(w *writer, raw string) {
	if raw == "" {
		w.field("query")
		return
	}
	type pair struct{ name, text string }
	var pairs []pair
	for _, text := range strings.Split(raw, "&") {
		name, _, _ := strings.Cut(text, "=")
		if decoded, err := url.QueryUnescape(name); err == nil {
			name = decoded
		}
		pairs = append(pairs, pair{strings.ToLower(name), text})
	}
	sort.SliceStable(pairs, func(i, j int) bool { return pairs[i].name < pairs[j].name })
	texts := make([]string, len(pairs))
	for i, p := range pairs {
		texts[i] = p.text
	}
	w.strings("query", texts)
}
