package gateway

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// oneOf returns text if it is one of the choices, the first for "".
func oneOf(text string, choices ...string) (string, error) {
	if text == "" {
		return choices[0], nil
	}
	for _, c := range choices {
		if text == c {
			return text, nil
		}
	}
	return "", fmt.Errorf("%q: expected one of %s", text, strings.Join(choices, ", "))
}

// wholePattern compiles a regular expression that must match a whole key.
func wholePattern(text string) (*regexp.Regexp, error) {
	if text == "" {
		return nil, nil
	}
	if _, err := regexp.Compile(text); err != nil {
		return nil, fmt.Errorf("it is no regular expression: %w", err)
	}
	return regexp.Compile(`\A(?:` + text + `)\z`)
}

// orDefault returns list where one is said, also an empty one.
func orDefault(list []string, def ...string) []string {
	if list == nil {
		return def
	}
	return list
}

var errTenantUnsaid = errors.New("it must be said, as there is no silent shared bucket: expected header:NAME, authorization or single")
