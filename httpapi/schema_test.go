package httpapi

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// node is a part of the API's description.
type node = map[string]any

// description is the API's description, read.
type description struct {
	root     node
	byID     map[string]described
	patterns map[string]*regexp.Regexp // those that were used
}

func readDescription() (description, error) {
	d := description{patterns: map[string]*regexp.Regexp{}}
	if err := yaml.Unmarshal(openAPIText, &d.root); err != nil {
		return d, err
	}
	d.byID = d.operations()
	return d, nil
}

func (d description) pattern(text string) *regexp.Regexp {
	if d.patterns[text] == nil {
		d.patterns[text] = regexp.MustCompile(text)
	}
	return d.patterns[text]
}

// follow returns what n refers to, or n itself.
func (d description) follow(n node) node {
	ref, ok := n["$ref"].(string)
	if !ok {
		return n
	}
	at := d.root
	for step := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		next, ok := at[step].(node)
		if !ok {
			panic("the description refers to nothing: " + ref)
		}
		at = next
	}
	return d.follow(at)
}

// check returns what value, out of JSON, has that schema does not say, or says otherwise. It is stricter than
// JSON Schema in one way: a member that is not described is a fault.
func (d description) check(schema node, value any) error {
	if choices, ok := d.follow(schema)["anyOf"].([]any); ok {
		var errs []string
		for _, choice := range choices {
			err := d.check(choice.(node), value)
			if err == nil {
				return nil
			}
			errs = append(errs, err.Error())
		}
		return fmt.Errorf("is none of: %s", strings.Join(errs, "; "))
	}
	properties, required := map[string][]node{}, []string{}
	for _, part := range d.parts(schema) {
		if err := d.checkPlain(part, value); err != nil {
			return err
		}
		if items, ok := part["items"].(node); ok {
			for i, item := range value.([]any) {
				if err := d.check(items, item); err != nil {
					return fmt.Errorf("[%d] %w", i, err)
				}
			}
		}
		for _, name := range list(part["required"]) {
			required = append(required, name.(string))
		}
		if described, ok := part["properties"].(node); ok {
			for name, property := range described {
				properties[name] = append(properties[name], property.(node))
			}
		}
	}
	object, ok := value.(map[string]any)
	if !ok || len(properties) == 0 {
		return nil
	}
	for _, name := range required {
		if _, there := object[name]; !there {
			return fmt.Errorf("lacks %s", name)
		}
	}
	for name, member := range object {
		if properties[name] == nil {
			return fmt.Errorf("has %s, which is not described", name)
		}
		for _, property := range properties[name] {
			if err := d.check(property, member); err != nil {
				return fmt.Errorf(".%s %w", name, err)
			}
		}
	}
	return nil
}

// parts returns schema and what its allOf adds to it.
func (d description) parts(schema node) []node {
	schema = d.follow(schema)
	parts := []node{schema}
	for _, part := range list(schema["allOf"]) {
		parts = append(parts, d.parts(part.(node))...)
	}
	return parts
}

func list(v any) []any {
	l, _ := v.([]any)
	return l
}

// checkPlain checks what a schema says of a value that has no members.
func (d description) checkPlain(schema node, value any) error {
	if kind, ok := schema["type"].(string); ok && !isOf(kind, value) {
		return fmt.Errorf("is %v: expected %s", value, kind)
	}
	if constant, ok := schema["const"]; ok && !reflect.DeepEqual(constant, value) {
		return fmt.Errorf("is %v: expected %v", value, constant)
	}
	if choices := list(schema["enum"]); choices != nil && !slices.Contains(choices, value) {
		return fmt.Errorf("is %v: expected one of %v", value, choices)
	}
	if pattern, ok := schema["pattern"].(string); ok && !d.pattern(pattern).MatchString(value.(string)) {
		return fmt.Errorf("is %q: expected %s", value, pattern)
	}
	if n, ok := value.(float64); ok && (n < number(schema["minimum"], math.Inf(-1)) || n > number(schema["maximum"], math.Inf(1))) {
		return fmt.Errorf("is %v: out of bounds", n)
	}
	if s, ok := value.(string); ok && float64(len(s)) > number(schema["maxLength"], math.Inf(1)) {
		return fmt.Errorf("has %d bytes: too long", len(s))
	}
	return nil
}

func isOf(kind string, value any) bool {
	switch v := value.(type) {
	case map[string]any:
		return kind == "object"
	case []any:
		return kind == "array"
	case string:
		return kind == "string"
	case bool:
		return kind == "boolean"
	case float64:
		return kind == "number" || kind == "integer" && v == math.Trunc(v)
	}
	return false
}

// number returns a number of the description, or otherwise where there is none.
func number(v any, otherwise float64) float64 {
	switch n := v.(type) {
	case uint64:
		return float64(n)
	case int64:
		return float64(n)
	case float64:
		return n
	}
	return otherwise
}
