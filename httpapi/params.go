package httpapi

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"onced"
	"onced/internal/wire"
)

// params are the query parameters of a call, each there at most once.
type params map[string]string

// parseParams reads a query strictly: a parameter that is not in taken, that is there
// twice or that is written wrongly is refused by name.
func parseParams(query string, taken []string) (params, error) {
	if query == "" {
		return nil, nil
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, onced.Problemf(onced.CodeInvalidRequest, "the query %.100q cannot be read: %v", query, err)
	}
	p := make(params, len(values))
	for name, lines := range values {
		switch {
		case !slices.Contains(taken, name):
			return nil, onced.Problemf(onced.CodeInvalidRequest, "the query parameter %.60q is unknown: expected %s", name, orNone(taken))
		case len(lines) > 1:
			return nil, onced.Problemf(onced.CodeInvalidRequest, "the query parameter %q is there %d times: expected once", name, len(lines))
		}
		p[name] = lines[0]
	}
	return p, nil
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return "only " + strings.Join(names, ", ")
}

// scope returns the scope, "" where none is named.
func (p params) scope() (string, error) {
	scope := p["scope"]
	return scope, onced.CheckScope(scope)
}

// boolean returns a parameter that is true or false; without it, false.
func (p params) boolean(name string) (bool, error) {
	switch text, ok := p[name]; {
	case !ok || text == "false":
		return false, nil
	case text == "true":
		return true, nil
	default:
		return false, onced.Problemf(onced.CodeInvalidRequest, "%s is %.40q: expected true or false", name, text)
	}
}

// wait returns how long to wait; without it, 0.
func (p params) wait() (time.Duration, error) {
	text, ok := p["wait"]
	if !ok {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > onced.MaxWait {
		return 0, onced.Problemf(onced.CodeInvalidRequest, `wait is %.40q: expected a duration from 0s to %s, such as "10s"`, text, wire.FormatDuration(onced.MaxWait))
	}
	return d, nil
}

// limit returns the size of a page; without it, the default.
func (p params) limit() (int, error) {
	text, ok := p["limit"]
	if !ok {
		return onced.DefaultListLimit, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > onced.MaxListLimit {
		return 0, onced.Problemf(onced.CodeInvalidRequest, "limit is %.40q: expected an integer from 1 to %d", text, onced.MaxListLimit)
	}
	return n, nil
}

// state returns the state to list; without it, StateAbsent for every state.
func (p params) state() (onced.State, error) {
	text, ok := p["state"]
	if !ok {
		return onced.StateAbsent, nil
	}
	state, err := onced.ParseState(text)
	if err != nil || state == onced.StateAbsent {
		return 0, onced.Problemf(onced.CodeInvalidRequest, "state is %.40q: expected in_progress, completed, unknown or expired", text)
	}
	return state, nil
}

// prefix returns the prefix of the keys to list; without it, "".
func (p params) prefix() (string, error) {
	prefix := p["prefix"]
	if prefix == "" {
		return "", nil
	}
	if _, err := onced.KeyFromPath(prefix); err != nil {
		return "", onced.Problemf(onced.CodeInvalidRequest, "prefix is %.60q: expected at most %d bytes of printable ASCII", prefix, onced.MaxKeyBytes)
	}
	return prefix, nil
}
