// Package picture draws the history of one key as a page that needs nothing beside itself: who called when, what
// each was told, and which faults there were meanwhile.
//
// Invariants:
//
//   - Nothing of a page is fetched, and nothing in it runs.
//   - Whatever comes from a history is escaped.
//   - Of a key that no order explains, one call is marked: the first that has no place. All later ones have none either.
//   - An answer that was lost is drawn until the end of the page: it may have had its effect at any time.
package picture

import (
	"cmp"
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"

	"onced/chaos/history"
)

// Mark says how a bar is coloured.
type Mark string

// The marks. Odd is for what has no place in the order.
const (
	Done    Mark = "done"
	Refused Mark = "refused"
	Lost    Mark = "lost"
	Seen    Mark = "seen"
)

// Bar is one call.
type Bar struct {
	Lane  string // who called
	Begin int64  // nanoseconds
	End   int64
	Short string // inside the bar
	Text  string // what was asked and told
	Mark  Mark
	Place int  // in the longest order that was found, from 1; 0 = none
	Odd   bool // the order ends before it
}

// Page is what is drawn.
type Page struct {
	Title   string
	Finding string
	Bars    []Bar
	Windows []history.Window // those that do not overlap the bars are left out
}

// Sizes in pixels.
const (
	width   = 1400
	margin  = 130 // left of the bars, for the lanes' names
	lane    = 30
	top     = 46 // for the faults' names
	shortly = 3  // the least width of a bar
)

// Draw writes the page.
func Draw(w io.Writer, p Page) error {
	if err := page.Execute(w, layOut(p)); err != nil {
		return fmt.Errorf("drawing the history of a key: %w", err)
	}
	return nil
}

// rect is something at its place.
type rect struct {
	Bar
	X, Y, W, H int
	At, For    string // times, for people
	Fault      string
}

type drawing struct {
	Page
	Width, Height int
	Lanes         []rect
	Shades        []rect
	Rects         []rect
	Rows          []rect
	Ticks         []rect
}

// scale turns times into places.
type scale struct{ from, until int64 }

func (s scale) x(at int64) int {
	at = min(max(at, s.from), s.until)
	return margin + int(float64(width-margin-20)*float64(at-s.from)/float64(max(1, s.until-s.from)))
}

func (s scale) since(at int64) string {
	return fmt.Sprintf("%.1f ms", float64(at-s.from)/float64(time.Millisecond))
}

func layOut(p Page) drawing {
	p.Bars = slices.Clone(p.Bars)
	slices.SortStableFunc(p.Bars, func(a, b Bar) int { return cmp.Compare(a.Begin, b.Begin) })
	d := drawing{Page: p, Width: width}
	s := extent(p.Bars)
	lanes := map[string]int{}
	var names []string
	for _, b := range p.Bars {
		if _, ok := lanes[b.Lane]; !ok {
			lanes[b.Lane] = 0
			names = append(names, b.Lane)
		}
	}
	slices.Sort(names)
	for i, name := range names {
		lanes[name] = i
		d.Lanes = append(d.Lanes, rect{Bar: Bar{Lane: name}, Y: top + i*lane, H: lane})
	}
	d.Height = top + len(names)*lane + 30
	for _, b := range p.Bars {
		r := rect{Bar: b, X: s.x(b.Begin), Y: top + lanes[b.Lane]*lane + 4, H: lane - 8, At: s.since(b.Begin)}
		r.W, r.For = max(shortly, s.x(b.End)-r.X), fmt.Sprintf("%.1f ms", float64(b.End-b.Begin)/1e6)
		if b.Mark == Lost {
			r.W, r.For = width-10-r.X, "lost"
		}
		d.Rects = append(d.Rects, r)
	}
	d.Rows = d.Rects
	for _, w := range p.Windows {
		if w.Until < s.from || w.From > s.until {
			continue
		}
		x := s.x(w.From)
		d.Shades = append(d.Shades, rect{X: x, W: max(shortly, s.x(w.Until)-x), Y: 0, H: d.Height - 20, Fault: w.Text, At: s.since(w.From), For: s.since(w.Until)})
	}
	for i := range 8 {
		at := s.from + (s.until-s.from)*int64(i)/7
		d.Ticks = append(d.Ticks, rect{X: s.x(at), Y: d.Height - 6, At: s.since(at)})
	}
	return d
}

// extent is from the first call to the last answer.
func extent(bars []Bar) (s scale) {
	for i, b := range bars {
		end := b.End
		if b.Mark == Lost {
			end = b.Begin
		}
		if i == 0 {
			s = scale{b.Begin, end}
		}
		s = scale{min(s.from, b.Begin), max(s.until, end)}
	}
	return s
}

var page = template.Must(template.New("page").Parse(`<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>{{.Title}}</title>
<style>
:root { color-scheme: light dark; font: 14px/1.5 system-ui, sans-serif; }
body { margin: 2em auto; max-width: 1420px; padding: 0 1em; }
h1 { font-size: 1.3em; } .finding { border-left: 4px solid #c22; padding-left: .8em; }
.scroll { overflow-x: auto; border: 1px solid #8886; border-radius: 6px; }
text { font: 11px system-ui, sans-serif; fill: currentColor; }
.done { fill: #2a8a4a; } .refused { fill: #9a8a3a; } .lost { fill: #7a5aa8; fill-opacity: .45; } .seen { fill: #3a78b8; }
.odd { stroke: #e02020; stroke-width: 3; } .shade { fill: #e06030; fill-opacity: .13; } .lane { stroke: #8883; }
rect + text { fill: #fff; pointer-events: none; }
table { border-collapse: collapse; margin-top: 1em; } td, th { padding: .15em .8em .15em 0; text-align: left; border-bottom: 1px solid #8883; }
td.n { text-align: right; font-variant-numeric: tabular-nums; } tr.bad td { color: #e02020; font-weight: 600; }
.key span { display: inline-block; width: .9em; height: .9em; margin: 0 .3em 0 1em; border-radius: 3px; }
</style>
<h1>{{.Title}}</h1>
<p class="finding">{{.Finding}}</p>
<p class="key"><span style="background:#2a8a4a"></span>accepted<span style="background:#9a8a3a"></span>refused<span style="background:#7a5aa8"></span>lost: may take effect at any later time, or never<span style="background:#3a78b8"></span>looked at<span style="background:#e0603033"></span>a fault<span style="outline:3px solid #e02020"></span>here it breaks: the calls before it have an order that explains them, numbered below, and this answer fits behind none of them; what came later is not judged</p>
<div class="scroll"><svg width="{{.Width}}" height="{{.Height}}" role="img" aria-label="{{.Title}}">
{{range .Shades}}<g><title>{{.Fault}} ({{.At}} to {{.For}})</title><rect class="shade" x="{{.X}}" y="{{.Y}}" width="{{.W}}" height="{{.H}}"/></g>
{{end}}{{range $i, $s := .Shades}}<text x="{{$s.X}}" y="14"{{if gt $s.X 900}} text-anchor="end"{{end}}>{{$s.Fault}}</text>
{{end}}{{range .Lanes}}<line class="lane" x1="0" x2="{{$.Width}}" y1="{{.Y}}" y2="{{.Y}}"/><text x="6" y="{{.Y}}" dy="19">{{.Lane}}</text>
{{end}}{{range .Rects}}<g><title>{{.Text}} ({{.At}}, {{.For}}){{if .Place}}, number {{.Place}} in the order{{end}}</title><rect class="{{.Mark}}{{if .Odd}} odd{{end}}" x="{{.X}}" y="{{.Y}}" width="{{.W}}" height="{{.H}}" rx="3"/>{{if gt .W 40}}<text x="{{.X}}" y="{{.Y}}" dx="4" dy="15">{{.Short}}</text>{{end}}</g>
{{end}}{{range .Ticks}}<text x="{{.X}}" y="{{.Y}}" text-anchor="middle">{{.At}}</text>
{{end}}</svg></div>
<table><tr><th>sent</th><th>took</th><th>who</th><th>order</th><th>asked → told</th></tr>
{{range .Rows}}<tr{{if .Odd}} class="bad"{{end}}><td class="n">{{.At}}</td><td class="n">{{.For}}</td><td>{{.Lane}}</td><td class="n">{{if .Place}}{{.Place}}{{else if .Odd}}none{{end}}</td><td>{{.Text}}</td></tr>
{{end}}</table>
</html>
`))
