package gateway

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Duration is a length of time as written in the file, a Go duration such as "30s".
// It is kept as text so that a bad one is reported with its route and field. "" = the default.
type Duration string

// or returns the duration, def where none is said.
func (d Duration) or(def time.Duration) (time.Duration, error) {
	if d == "" {
		return def, nil
	}
	v, err := time.ParseDuration(string(d))
	if err != nil {
		return 0, fmt.Errorf(`%q is no duration: expected one with its unit, such as "30s" or "24h"`, string(d))
	}
	return v, nil
}

// within is or with bounds.
func (d Duration) within(def, low, high time.Duration) (time.Duration, error) {
	v, err := d.or(def)
	if err == nil && (v < low || v > high) {
		err = fmt.Errorf("%s is out of bounds: expected %s to %s", v, low, high)
	}
	return v, err
}

// Count is a whole number as written in the file. "" = the default.
type Count string

// within returns the number, def where none is said, and refuses one outside 1..high.
func (c Count) within(def, high int64) (int64, error) {
	if c == "" {
		return def, nil
	}
	n, err := strconv.ParseInt(string(c), 10, 64)
	if err != nil || n < 1 || n > high {
		return 0, fmt.Errorf("%q: expected a whole number from 1 to %d", string(c), high)
	}
	return n, nil
}

// Size is a number of bytes as written in the file: "512KiB", "1MiB", or a bare number of
// bytes. "" = the default.
type Size string

var sizeUnits = []struct {
	suffix string
	bytes  int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"B", 1}}

// within returns the size in bytes, def where none is said, and refuses one outside 1..high.
func (s Size) within(def, high int64) (int64, error) {
	if s == "" {
		return def, nil
	}
	digits, unit := string(s), int64(1)
	for _, u := range sizeUnits {
		if d, ok := strings.CutSuffix(digits, u.suffix); ok {
			digits, unit = strings.TrimRight(d, " "), u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(digits, 10, 63)
	if err != nil || n > uint64(math.MaxInt64/unit) {
		return 0, fmt.Errorf(`%q is no size: expected a number of bytes such as "512KiB", "1MiB" or "65536"`, string(s))
	}
	if v := int64(n) * unit; v >= 1 && v <= high {
		return v, nil
	}
	return 0, fmt.Errorf("%q is out of bounds: expected 1 to %d bytes", string(s), high)
}
