//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"

	"onced/chaos/check"
	"onced/chaos/history"
	"onced/chaos/picture"
)

// mostPictures bounds how many keys are drawn: the first say enough.
const mostPictures = 5

// draw draws the histories of the keys that findings are about.
func (c *campaign) draw(dir string, book *history.Book, found []check.Finding) error {
	drawn := map[string]bool{}
	for _, f := range found {
		if f.Key == "" || drawn[f.Key] || len(drawn) == mostPictures {
			continue
		}
		drawn[f.Key] = true
		file, err := os.Create(filepath.Join(dir, f.Key+".html"))
		if err != nil {
			return err
		}
		err = picture.Draw(file, picture.Page{
			Title: f.Key, Finding: fmt.Sprintf("%s: %s (seed %d, round %d)", f.Check, f.Text, c.Seed, c.rounds),
			Bars: picture.OfKey(book, f.Key), Windows: book.Windows,
		})
		if err := file.Close(); err != nil {
			return err
		}
		if err != nil {
			return err
		}
	}
	return nil
}
