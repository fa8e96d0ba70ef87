package gateway

import (
	"fmt"
	"strconv"
)

// statusSet is a list of statuses: single codes, and classes such as 2xx.
type statusSet struct {
	codes   map[int]bool
	classes [6]bool
}

// parseStatus reads "201" or "2xx"; exactly one of code and class is not 0.
func parseStatus(text string) (code, class int, err error) {
	if len(text) == 3 && text[1:] == "xx" && text[0] >= '2' && text[0] <= '5' {
		return 0, int(text[0] - '0'), nil
	}
	if code, err := strconv.Atoi(text); err == nil && len(text) == 3 && code >= 200 && code <= 599 {
		return code, 0, nil
	}
	return 0, 0, fmt.Errorf("%q is no status: expected a code from 200 to 599, or a class 2xx, 3xx, 4xx or 5xx", text)
}

func parseStatuses(list []string) (statusSet, error) {
	s := statusSet{codes: map[int]bool{}}
	for i, text := range list {
		code, class, err := parseStatus(text)
		if err != nil {
			return s, item(i, err)
		}
		if class != 0 {
			s.classes[class] = true
		} else {
			s.codes[code] = true
		}
	}
	return s, nil
}

// has tells whether a status is in the set, by its code or its class.
func (s statusSet) has(status int) bool { return s.codes[status] || s.classes[status/100] }

// common returns a code or class that stands in both sets, "" when none does.
func (s statusSet) common(o statusSet) string {
	for class := range s.classes {
		if s.classes[class] && o.classes[class] {
			return fmt.Sprintf("%dxx", class)
		}
	}
	for code := 200; code <= 599; code++ {
		if s.codes[code] && o.codes[code] {
			return strconv.Itoa(code)
		}
	}
	return ""
}

// disposition is what an upstream's answer means for the record.
type disposition int

const (
	// keepAnswer completes the record with the answer.
	keepAnswer disposition = iota
	// keepDone completes the record without the answer's body: it happened, and never runs again.
	keepDone
	// freeKey releases the reservation: the upstream says that nothing was done.
	freeKey
	// holdUnknown completes the record as unknown: it may have happened.
	holdUnknown
)

// dispositionOf classifies an answer's status (contract §5.5). A code that is named wins
// over a class that is named.
func (rt *route) dispositionOf(status int) disposition {
	class := status / 100
	switch {
	case status < 200 || status > 599: // a final answer cannot be that: it is no HTTP
		return holdUnknown
	case rt.store.codes[status]:
		return keepAnswer
	case rt.release.codes[status]:
		return freeKey
	case rt.store.classes[class]:
		return keepAnswer
	case rt.release.classes[class] || class == 4:
		return freeKey
	case class == 5:
		return holdUnknown
	default:
		return keepDone
	}
}

// String returns the word for the log.
func (d disposition) String() string {
	return [...]string{"keep_answer", "keep_done", "free_key", "hold_unknown"}[d]
}
