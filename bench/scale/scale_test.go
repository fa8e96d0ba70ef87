package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPage holds the tables of docs/scale.md to what this program prints, and it to print the same each time.
func TestPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "scale.md"))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(nil, &out); err != nil {
		t.Fatal(err)
	}
	for _, table := range strings.Split(strings.TrimSpace(out.String()), "\n\n") {
		if !strings.Contains(string(page), "\n"+table+"\n") {
			t.Errorf("docs/scale.md does not have this table:\n%s", table)
		}
	}
}

// TestInputsCount holds every input to change what is printed beyond its own row.
func TestInputsCount(t *testing.T) {
	computed := func(args ...string) string {
		var out strings.Builder
		if err := run(args, &out); err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(out.String(), "\n\n")
		return rest
	}
	usual := computed()
	for _, p := range Defaults().list() {
		if computed("--"+p.flag, fmt.Sprint(*p.value*1.7)) == usual {
			t.Errorf("--%s makes no difference", p.flag)
		}
	}
}

// TestModel holds the model to figures worked out by hand.
func TestModel(t *testing.T) {
	in := &Inputs{Record: 400, Log: 500, LogWritten: 600, Flush: 1, Level: 5, Base: 40e6, Between: 50e6, Trailing: 150e6, Held: 150e6, Stream: 100e6, Read: 90e-6, Apply: 10e-6, Sync: 1e-3}
	l := Load{"", 10e6, 1000} // a table of 4 GB: 40 s
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"disk", in.Disk(l), 4.2e9},
		{"levels", in.Levels(l), 3},
		{"written by the table", in.TableWritten(l), 6400},
		{"written a second", in.WrittenPerSecond(l), 7e6},
		{"log meanwhile", in.Grown(l), 20e6},
		{"kept", in.Kept(), 100e6},
		{"most keys", in.MostKeys(l), 50e6},
		{"most rate", in.MostRate(), 10_000},
		{"syncs of one group", in.Syncs(l, 1), 1000},
		{"syncs of many", in.Syncs(l, 50), 2000},
	} {
		if d := c.got/c.want - 1; d > 1e-9 || d < -1e-9 {
			t.Errorf("%s: %g, expected %g", c.what, c.got, c.want)
		}
	}
	if !in.ComesBack(l) || in.Groups(l) != 1 {
		t.Error("20 MB of log are found where 100 MB are kept")
	}
	if large := (Load{"", 100e6, 1000}); in.ComesBack(large) || in.Groups(large) != 2 { // 200 MB; 50 MB for each of two
		t.Errorf("200 MB of log are not found: %d groups", in.Groups(large))
	}
	if fast := (Load{"", 1e6, 35_000}); in.Groups(fast) != 4 {
		t.Errorf("35,000 a second, 10,000 for each: %d groups", in.Groups(fast))
	}
}

// TestFit holds the model to what --table measured.
func TestFit(t *testing.T) {
	for keys, written := range map[float64]float64{1e6: 2350, 2e6: 2732, 3e6: 2915, 4e6: 3078, 5e6: 3206} {
		if got := Defaults().Filled(Load{Keys: keys}); got < 0.95*written || got > 1.1*written {
			t.Errorf("%.0f keys: %.0f bytes written for each, measured %.0f", keys, got, written)
		}
	}
	if got, all := Defaults().Filled(Load{Keys: 1e4}), Defaults().TableWritten(Load{Keys: 1e4}); got != all {
		t.Errorf("within the first level %g, expected %g", got, all)
	}
}

// TestSpread holds the hash to spread keys that a counter makes, and the sum of all groups to be all keys.
func TestSpread(t *testing.T) {
	in := counted()
	sum := 0
	for _, n := range in {
		sum += n
	}
	if sum != spreadKeys {
		t.Errorf("%d keys are in the slots", sum)
	}
	if got := spread(in, 11); got < 1 || got > 1.05 {
		t.Errorf("the largest of 11 groups has %.3f of the mean", got)
	}
	skewed := [slots]int{0: spreadKeys}
	if got := spread(skewed, 4); got != 4 {
		t.Errorf("all keys in one of four groups: %.3f of the mean, expected 4", got)
	}
}

// TestFillTable fills a small table, so that the measurement is there when somebody needs it.
func TestFillTable(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "table")
	var said []string
	if err := fillTable(dir, "", 2_000, 1_000, func(v any) { said = append(said, fmt.Sprint(v)) }); err != nil {
		t.Fatal(err)
	}
	if all := strings.Join(said, "\n"); !strings.Contains(all, "1000 keys") || !strings.Contains(all, "2000 keys") || !strings.Contains(all, "read as a snapshot") {
		t.Errorf("it says\n%s", all)
	}
	backup := filepath.Join(t.TempDir(), "backup")
	if err := fillTable(dir, backup, 0, 1, func(any) {}); err != nil {
		t.Errorf("it cannot be opened again: %v", err)
	}
	if info, err := os.Stat(backup); err != nil || info.Size() < 2_000*200 {
		t.Errorf("the backup of 2,000 keys: %v, %v", info, err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := fillTable(filepath.Join(file, "table"), "", 1, 1, func(any) {}); err == nil {
		t.Error("a directory that cannot be made is no error")
	}
}
