package store

import (
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

const (
	currentFile = "CURRENT"
	tablePrefix = "table-"
)

func tableName(n uint64) string { return tablePrefix + strconv.FormatUint(n, 10) }

// tableNumber is the inverse of tableName.
func tableNumber(name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, tablePrefix)
	n, err := strconv.ParseUint(digits, 10, 64)
	return n, ok && err == nil && tableName(n) == name
}

// current returns the folder of the table in force. In a fresh directory it names the first one, before the
// folder is made: a directory that has a table has a CURRENT.
func (f files) current() (string, error) {
	data, err := f.read(f.path(currentFile))
	if errors.Is(err, fs.ErrNotExist) {
		return f.firstTable()
	}
	if err != nil {
		return "", err
	}
	name := strings.TrimSuffix(string(data), "\n")
	if _, ok := tableNumber(name); !ok {
		return "", fmt.Errorf("reading %s: %w: it says %.40q, expected the name of a table", f.path(currentFile), ErrDamaged, name)
	}
	return name, nil
}

func (f files) firstTable() (string, error) {
	names, err := f.List(f.root)
	if err != nil {
		return "", fmt.Errorf("listing %s: %w", f.root, err)
	}
	for _, name := range names {
		if _, ok := tableNumber(name); ok {
			return "", fmt.Errorf("opening %s: %w: there is a %s but no %s that says which table is in force", f.root, ErrDamaged, name, currentFile)
		}
	}
	return tableName(1), f.setCurrent(tableName(1))
}

// setCurrent puts another table in force, durably.
func (f files) setCurrent(name string) error {
	if err := f.replace("current", f.path(currentFile), []byte(name+"\n")); err != nil {
		return fmt.Errorf("putting %s in force: %w", name, err)
	}
	return nil
}

// removeTablesBut removes the tables that a crash left behind beside the one in force.
func (f files) removeTablesBut(current string) error {
	names, err := f.List(f.root)
	if err != nil {
		return fmt.Errorf("listing %s: %w", f.root, err)
	}
	for _, name := range names {
		if _, ok := tableNumber(name); !ok || name == current {
			continue
		}
		if err := f.RemoveAll(f.path(name)); err != nil {
			return fmt.Errorf("removing the old table %s: %w", f.path(name), err)
		}
	}
	return nil
}
