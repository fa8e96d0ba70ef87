package report

import (
	"fmt"
	"html"
	"math"
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
	top := 0.0
	for _, s := range r.Systems {
		for _, n := range Levels {
			v, _ := r.value(fmt.Sprintf("pairs%d.rate", n), s)
			top = max(top, v)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" role="img">`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, "<title>Durable pairs and replays a second</title>\n"+`<rect width="%d" height="%d" fill="white"/>`+"\n", plotWidth, plotHeight)
	if top > 0 {
		r.lines(&b, top)
	}
	replays := r.barsOf(&b, "replays.rate")
	b.WriteString("</svg>\n")
	if top == 0 && !replays {
		return ""
	}
	return b.String()
}

// lines draws the left panel; both axes are logarithmic.
func (r *Results) lines(b *strings.Builder, top float64) {
	decades := math.Ceil(math.Log10(max(top, 1000)))
	y := func(v float64) float64 {
		return panelTop + panelHigh*(1-(math.Log10(max(v, 10))-1)/(decades-1))
	}
	x := func(i int) float64 { return panelLeft + panelWide*float64(i)/float64(len(Levels)-1)*0.82 + 10 }
	text(b, panelLeft, panelTop-24, "start", "bold", "Reserve+complete pairs a second, by callers")
	for d := 1.0; d <= decades; d++ {
		v := math.Pow(10, d)
		fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="#ddd"/>`+"\n", panelLeft, y(v), panelLeft+panelWide, y(v))
		text(b, panelLeft-6, y(v)+4, "end", "normal", number(v))
	}
	for i, n := range Levels {
		text(b, x(i), panelTop+panelHigh+20, "middle", "normal", fmt.Sprint(n))
	}
	var labels []float64
	for _, s := range r.Systems {
		var points []string
		last, at := 0.0, 0
		for i, n := range Levels {
			if v, ok := r.value(fmt.Sprintf("pairs%d.rate", n), s); ok {
				points = append(points, fmt.Sprintf("%.1f,%.1f", x(i), y(v)))
				fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", x(i), y(v), colours[s])
				last, at = y(v), i
			}
		}
		if len(points) == 0 {
			continue
		}
		fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(points, " "), colours[s])
		place := apart(labels, last)
		labels = append(labels, place)
		text(b, x(at)+8, place+4, "start", "normal", titles[s])
	}
}

// labelHigh is the room that a label needs.
const labelHigh = 13

// apart moves a label down until it stands on none of those there are.
func apart(taken []float64, at float64) float64 {
	for moved := true; moved; {
		moved = false
		for _, t := range taken {
			if math.Abs(t-at) < labelHigh {
				at, moved = t+labelHigh, true
			}
		}
	}
	return at
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
