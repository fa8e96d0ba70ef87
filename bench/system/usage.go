package system

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// ticks is how many the kernel counts a second in /proc/PID/stat, on every architecture that Go runs on.
const ticks = 100

// Processor returns the processor time, user's and kernel's, that the processes of pids and all below them have used, as the kernel counts it.
func Processor(pids []int) (time.Duration, error) {
	var sum int
	for _, pid := range family(pids) {
		fields, err := stat(pid)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // a child that ended is counted with its parent
		}
		if err != nil {
			return 0, fmt.Errorf("reading the processor time of %d: %w", pid, err)
		}
		for _, i := range []int{13, 14, 15, 16} { // utime, stime, and the same of children that ended
			n, err := strconv.Atoi(fields[i])
			if err != nil {
				return 0, fmt.Errorf("reading the processor time of %d: %w", pid, err)
			}
			sum += n
		}
	}
	return time.Duration(sum) * time.Second / ticks, nil
}

// stat returns the fields of /proc/PID/stat, in the kernel's count from 0: the second, a name, may hold spaces.
func stat(pid int) ([]string, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	open, end := bytes.IndexByte(raw, '('), bytes.LastIndexByte(raw, ')')
	if open < 0 || end < open {
		return nil, errors.New("no name in it")
	}
	fields := append([]string{strings.TrimSpace(string(raw[:open])), string(raw[open+1 : end])}, strings.Fields(string(raw[end+1:]))...)
	if len(fields) < 17 {
		return nil, fmt.Errorf("it has %d fields", len(fields))
	}
	return fields, nil
}

// family returns pids and what descends from them.
func family(pids []int) []int {
	children := map[int][]int{}
	all, _ := filepath.Glob("/proc/[0-9]*") // an error is of the pattern
	for _, dir := range all {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		if fields, err := stat(pid); err == nil {
			parent, _ := strconv.Atoi(fields[3])
			children[parent] = append(children[parent], pid)
		}
	}
	found := append([]int(nil), pids...)
	for i := 0; i < len(found); i++ {
		found = append(found, children[found[i]]...)
	}
	return found
}

// Memory returns the bytes that the processes of pids and all below them have resident; what they share counts once.
func Memory(pids []int) (int64, error) { return rollup(pids, "Pss:") }

// OwnMemory is that of Memory without the pages of files, which the kernel takes back when memory is short.
func OwnMemory(pids []int) (int64, error) { return rollup(pids, "Pss_Anon:") }

// rollup adds up one line of /proc/PID/smaps_rollup.
func rollup(pids []int, label string) (sum int64, err error) {
	for _, pid := range family(pids) {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("reading the memory of %d: %w", pid, err)
		}
		kib, err := labelled(string(raw), label)
		if err != nil {
			return 0, fmt.Errorf("reading the memory of %d: %w", pid, err)
		}
		sum += kib << 10
	}
	return sum, nil
}

// Written returns the bytes that the processes of pids and all below them have handed to the disk since they were started, as the kernel counts them.
func Written(pids []int) (sum int64, err error) {
	for _, pid := range family(pids) {
		raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/io", pid))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // what a child that ended has written is counted with its parent
		}
		if err != nil {
			return 0, fmt.Errorf("reading what %d has written: %w", pid, err)
		}
		n, err := labelled(string(raw), "write_bytes:")
		if err != nil {
			return 0, fmt.Errorf("reading what %d has written: %w", pid, err)
		}
		sum += n
	}
	return sum, nil
}

// labelled is the number behind a label at the start of a line.
func labelled(text, label string) (int64, error) {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, label); ok {
			return strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
		}
	}
	return 0, fmt.Errorf("there is no %s in it", label)
}

// Disk returns the bytes that the files below dir take on the disk, holes not counted.
func Disk(dir string) (int64, error) {
	var sum int64
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // files come and go
		}
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			sum += s.Blocks * 512
		}
		return nil
	})
	return sum, err
}

// below returns what pattern matches below each of dirs.
func below(dirs []string, pattern string) (all []string) {
	for _, dir := range dirs {
		found, _ := filepath.Glob(filepath.Join(dir, pattern)) // an error is of the pattern
		all = append(all, found...)
	}
	return all
}
