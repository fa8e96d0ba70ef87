// Command scale computes what a cluster takes at sizes that no test can have, from figures that were measured at sizes that it can: docs/scale.md.
//
//	go run ./scale                                      the tables of docs/scale.md
//	go run ./scale --table DIR --keys 5000000           measure the key table alone, in a new directory; --backup FILE for onced restore
//
// Invariants:
//
//   - Every input says whether it was measured, is the code's own constant, or is a guess.
//   - What is printed follows from the inputs alone: the same at every run.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	in := Defaults()
	f := flag.NewFlagSet("scale", flag.ContinueOnError)
	table := f.String("table", "", "measure a key table in this new directory, instead of computing")
	keys := f.Int("keys", 5_000_000, "keys of that table")
	backup := f.String("backup", "", "write a backup of it to this new file, for onced restore")
	for _, p := range in.list() {
		f.Float64Var(p.value, p.flag, *p.value, p.title)
	}
	if err := f.Parse(args); err != nil {
		return err
	}
	if *table != "" {
		return fillTable(*table, *backup, *keys, 500_000, func(said any) { fmt.Fprintln(out, said) })
	}
	fmt.Fprint(out, in.Markdown())
	return nil
}
