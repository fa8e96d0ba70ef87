//go:build linux

package lab

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestWeather(t *testing.T) {
	fates := func(weather Weather) (lost, late int) {
		w := &wire{chance: rand.New(rand.NewPCG(1, 1))}
		w.set(0, 2, weather)
		for range 1000 {
			delay, arrives := w.fate(0, 2)
			if !arrives {
				lost++
			} else if delay > 0 {
				late++
			}
			if delay > weather.Delay+weather.Jitter {
				t.Errorf("%+v: a packet is delayed by %s", weather, delay)
			}
			if other, arrives := w.fate(2, 0); other != 0 || !arrives {
				t.Fatal("the other direction has weather too")
			}
		}
		return lost, late
	}
	for _, tc := range []struct {
		weather                                  Weather
		leastLost, mostLost, leastLate, mostLate int
	}{
		{Weather{}, 0, 0, 0, 0},
		{Weather{Loss: 1}, 1000, 1000, 0, 0},
		{Weather{Loss: 0.2}, 150, 250, 0, 0},
		{Weather{Delay: time.Second, Jitter: time.Second}, 0, 0, 1000, 1000},
		{Weather{Delay: time.Second, Reorder: 0.3}, 0, 0, 650, 750},
	} {
		lost, late := fates(tc.weather)
		if lost < tc.leastLost || lost > tc.mostLost || late < tc.leastLate || late > tc.mostLate {
			t.Errorf("%+v: of 1000 packets %d are lost and %d late", tc.weather, lost, late)
		}
	}
}
