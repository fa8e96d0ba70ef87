package report

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

const (
	plotWidth, plotHeight = 900, 380
	panelLeft, panelTop   = 60.0, 50.0
	panelWide, panelHigh  = 460.0, 260.0
	barsLeft, barsWide    = 620.0, 250.0
	barThick, barsBetween = 26.0, 22.0
)

// colours are told apart also by those who see few; every line and bar has its name beside it too.
var colours = map[string]string{"onced": "#0072b2", "etcd": "#d55e00", "redis": "#cc79a7", "postgres": "#009e73", "memory": "#999999"}

// Plot draws pairs a second by the number of callers, and replays a second. "" where neither was measured.
func (r *Results) Plot() string {
	top, bottom := 0.0, math.Inf(1)
	for _, s := range r.Systems {
		for _, n := range Levels {
			if v, ok := r.value(fmt.Sprintf("pairs%d.rate", n), s); ok {
				top, bottom = max(top, v), min(bottom, v)
			}
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" role="img">`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, "<title>Durable pairs and replays a second</title>\n"+`<rect width="%d" height="%d" fill="white"/>`+"\n", plotWidth, plotHeight)
	if top > 0 {
		r.lines(&b, top, bottom)
	}
	replays := r.barsOf(&b, "replays.rate")
	b.WriteString("</svg>\n")
	if top == 0 && !replays {
		return ""
	}
	return b.String()
}

// lines draws the left panel; both axes are logarithmic.
func (r *Results) lines(b *strings.Builder, top, bottom float64) {
	first := math.Floor(math.Log10(max(bottom, 1)))
	last := max(math.Ceil(math.Log10(top)), first+1)
	y := func(v float64) float64 {
		return panelTop + panelHigh*(last-math.Log10(max(v, 1)))/(last-first)
	}
	x := func(i int) float64 { return panelLeft + panelWide*float64(i)/float64(len(Levels)-1)*0.82 + 10 }
	text(b, panelLeft, panelTop-24, "start", "bold", "Reserve+complete pairs a second, by callers")
	for d := first; d <= last; d++ {
		v := math.Pow(10, d)
		fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#ddd"/>`+"\n", panelLeft, y(v), panelLeft+panelWide, y(v))
		text(b, panelLeft-6, y(v)+4, "end", "normal", number(v))
	}
	for i, n := range Levels {
		text(b, x(i), panelTop+panelHigh+20, "middle", "normal", fmt.Sprint(n))
	}
	text(b, x(len(Levels)-1)/2+x(0)/2, panelTop+panelHigh+42, "middle", "normal", "callers, each sends when it has its answer")
	var labels []label
	for _, s := range r.Systems {
		var points []string
		end := label{system: s}
		for i, n := range Levels {
			if v, ok := r.value(fmt.Sprintf("pairs%d.rate", n), s); ok {
				points = append(points, fmt.Sprintf("%.1f,%.1f", x(i), y(v)))
				fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", x(i), y(v), colours[s])
				end.x, end.y = x(i)+8, y(v)
			}
		}
		if len(points) == 0 {
			continue
		}
		fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), colours[s])
		labels = append(labels, end)
	}
	for _, l := range apart(labels) {
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" fill="%s">%s</text>`+"\n", l.x, l.y+4, colours[l.system], html.EscapeString(titles[l.system]))
	}
}

// label is the name of a line, at its end.
type label struct {
	system string
	x, y   float64
}

// labelHigh is the room that a label needs.
const labelHigh = 13

// apart moves labels down until none stands on another, in the order of their lines.
func apart(labels []label) []label {
	slices.SortStableFunc(labels, func(a, b label) int { return cmp.Compare(a.y, b.y) })
	for i := 1; i < len(labels); i++ {
		labels[i].y = max(labels[i].y, labels[i-1].y+labelHigh)
	}
	return labels
}

// barsOf draws the right panel, and tells whether there was anything to draw.
func (r *Results) barsOf(b *strings.Builder, key string) bool {
	top := 0.0
	for _, s := range r.Systems {
		v, _ := r.value(key, s)
		top = max(top, v)
	}
	if top == 0 {
		return false
	}
	text(b, barsLeft, panelTop-24, "start", "bold", "Replays a second, 64 callers")
	at := panelTop
	for _, s := range r.Systems {
		v, ok := r.value(key, s)
		if !ok {
			continue
		}
		text(b, barsLeft, at+10, "start", "normal", titles[s]+": "+number(v))
		fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", barsLeft, at+14, barsWide*v/top, barThick-10, colours[s])
		at += barThick + barsBetween
	}
	return true
}

func text(b *strings.Builder, x, y float64, anchor, weight, what string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s" font-weight="%s">%s</text>`+"\n", x, y, anchor, weight, html.EscapeString(what))
}
