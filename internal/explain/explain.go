// Package explain tells a person what each code of a problem means: what happened, whether it is safe
// to send the request again, and with which key. The API of a node and the gateway show
// the same pages, each below a path of its own, to which the type of their problems points.
//
// Invariants:
//
//   - Every code of [onced.Codes] has a page.
//   - A page says nothing of who asks: it needs no credentials and may be cached.
package explain

import (
	"bytes"
	_ "embed"
	"html/template"
	"net/http"
	"strconv"
	"strings"

	"onced"
)

//go:embed problems.html
var pagesHTML string

var pagesTemplate = template.Must(template.New("problems").Parse(pagesHTML))

// page is one row of the table of problems with its explanation.
type page struct {
	onced.CodeInfo
	explanation
	All  string // the path of all pages
	Path string // its own
}

func pageOf(info onced.CodeInfo, path string) page {
	return page{info, explanations[info.Code], path, path + string(info.Code)}
}

// One answers with the page of code. path is where all pages are, ending in "/". It returns
// false, and has written nothing, where there is no such code.
func One(w http.ResponseWriter, r *http.Request, path string, code onced.Code) bool {
	info := code.Info()
	if info.Code != code {
		return false
	}
	send(w, r, []page{pageOf(info, path)})
	return true
}

// All answers with every page. path is where they are, ending in "/".
func All(w http.ResponseWriter, r *http.Request, path string) {
	var pages []page
	for _, info := range onced.Codes {
		pages = append(pages, pageOf(info, path))
	}
	send(w, r, pages)
}

func send(w http.ResponseWriter, r *http.Request, pages []page) {
	var body bytes.Buffer
	media := "text/html; charset=utf-8"
	if wantsText(r.Header["Accept"]) {
		media = "text/plain; charset=utf-8"
		for _, p := range pages {
			p.writeText(&body)
		}
	} else if err := pagesTemplate.Execute(&body, pages); err != nil {
		panic(err) // the template and the table are both ours, and a test runs every page
	}
	h := w.Header()
	h.Set("Content-Type", media)
	h.Set("Content-Length", strconv.Itoa(body.Len()))
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
	h.Set("Cache-Control", "max-age=3600")
	h.Set("Vary", "Accept")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(body.Bytes())
}

// wantsText tells whether plain text is asked for, and HTML is not.
func wantsText(accept []string) bool {
	all := strings.ToLower(strings.Join(accept, ","))
	return strings.Contains(all, "text/plain") && !strings.Contains(all, "text/html")
}

func (p page) writeText(b *bytes.Buffer) {
	b.WriteString(p.Title + "\n" + string(p.Code) + " (HTTP " + strconv.Itoa(p.Status) + ", retry: " + string(p.Retry) + ")\n\n")
	b.WriteString("What happened\n  " + p.Happened + "\n\n")
	b.WriteString("Is it safe to send the request again?\n  " + p.Again + "\n\n")
	b.WriteString("With which key?\n  " + p.Key + "\n\n")
}
