package fingerprint

import (
	"fmt"
	"strings"
)

// pointers is a set of JSON pointers as a tree of reference tokens. A nil *pointers
// holds none.
type pointers struct {
	ignored  bool
	children map[string]*pointers
}

// parsePointers reads JSON pointers (RFC 6901). The whole document ("") cannot be
// left out: that is body: none.
func parsePointers(list []string) (*pointers, error) {
	root := &pointers{}
	for _, text := range list {
		if !strings.HasPrefix(text, "/") {
			return nil, fmt.Errorf("%q is no JSON pointer: expected one such as /metadata/sent_at", text)
		}
		node := root
		for _, token := range strings.Split(text[1:], "/") {
			name, err := unescapeToken(token)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", text, err)
			}
			node = node.grow(name)
		}
		node.ignored = true
	}
	return root, nil
}

func unescapeToken(token string) (string, error) {
	for i := 0; i < len(token); i++ {
		if token[i] == '~' && (i+1 == len(token) || token[i+1] != '0' && token[i+1] != '1') {
			return "", fmt.Errorf("a ~ stands before neither 0 nor 1 (~0 is ~, ~1 is /)")
		}
	}
	return strings.ReplaceAll(strings.ReplaceAll(token, "~1", "/"), "~0", "~"), nil
}

func (p *pointers) grow(name string) *pointers {
	if p.children == nil {
		p.children = map[string]*pointers{}
	}
	if p.children[name] == nil {
		p.children[name] = &pointers{}
	}
	return p.children[name]
}

func (p *pointers) child(name string) *pointers {
	if p == nil {
		return nil
	}
	return p.children[name]
}

func (p *pointers) isIgnored() bool { return p != nil && p.ignored }
