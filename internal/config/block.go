package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"onced/gateway"
)

// The gateway's block is checked against its struct before it is decoded, so that each error has the line and the way
// to the fault, and says what is expected there.

// fault is something in a block that does not have the form that its place asks for.
type fault struct {
	line int
	text string
}

func (f *fault) Error() string { return f.text }

func faultAt(n ast.Node, where, format string, args ...any) error {
	return &fault{line: lineOf(n), text: where + ": " + fmt.Sprintf(format, args...)}
}

// lineOf returns the line on which a node begins.
func lineOf(n ast.Node) int {
	if m, ok := n.(*ast.MappingNode); ok && len(m.Values) > 0 { // its own token stands behind the first name
		return lineOf(m.Values[0].Key)
	}
	if v, ok := n.(*ast.MappingValueNode); ok {
		return lineOf(v.Key)
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 0
}

// checkBlock checks a node against the type that it is decoded into. What stands behind an alias is checked
// where it is written.
func checkBlock(n ast.Node, t reflect.Type, where string) error {
	switch node := n.(type) {
	case *ast.AnchorNode:
		return checkBlock(node.Value, t, where)
	case *ast.TagNode:
		return checkBlock(node.Value, t, where)
	case *ast.AliasNode:
		return nil
	}
	if isEmpty(n) {
		return nil
	}
	switch t.Kind() {
	case reflect.Pointer:
		return checkBlock(n, t.Elem(), where)
	case reflect.Struct:
		return checkFields(n, t, where)
	case reflect.Slice:
		return checkList(n, t, where)
	case reflect.Map:
		return checkEntries(n, where, "a name and a value", func(key string, value ast.Node) error {
			return checkBlock(value, t.Elem(), where+"."+key)
		})
	case reflect.Bool:
		if _, ok := n.(*ast.BoolNode); !ok {
			return faultAt(n, where, "expected true or false, not %s", kindOf(n))
		}
	default:
		if _, ok := n.(ast.ScalarNode); !ok {
			return faultAt(n, where, "expected a single value, not %s", kindOf(n))
		}
	}
	return nil
}

func checkList(n ast.Node, t reflect.Type, where string) error {
	list, ok := n.(*ast.SequenceNode)
	if !ok {
		return faultAt(n, where, "expected a list, not %s", kindOf(n))
	}
	for i, entry := range list.Values {
		if isEmpty(entry) {
			return faultAt(cmp.Or(entry, n), where, "entry %d is empty", i)
		}
		if err := checkBlock(entry, t.Elem(), fmt.Sprintf("%s[%d]", where, i)); err != nil {
			return err
		}
	}
	return nil
}

func checkFields(n ast.Node, t reflect.Type, where string) error {
	fields, names := map[string]reflect.Type{}, []string{}
	for i := range t.NumField() {
		name := t.Field(i).Tag.Get("yaml")
		fields[name], names = t.Field(i).Type, append(names, name)
	}
	slices.Sort(names)
	return checkEntries(n, where, "options", func(key string, value ast.Node) error {
		field, known := fields[key]
		if !known {
			return fmt.Errorf("unknown option %q: expected one of %s", key, strings.Join(names, ", "))
		}
		return checkBlock(value, field, where+"."+key)
	})
}

// checkEntries hands each entry of a mapping to check. An error that is no fault is of the entry's name.
func checkEntries(n ast.Node, where, what string, check func(key string, value ast.Node) error) error {
	mapping, ok := n.(ast.MapNode)
	if !ok {
		return faultAt(n, where, "expected %s, one `name: value` a line, not %s", what, kindOf(n))
	}
	own := false
	for it := mapping.MapRange(); it.Next(); own = true {
		if _, merge := it.Key().(*ast.MergeKeyNode); merge {
			if own { // the library would let it win over what stands before it, against YAML's rules
				return faultAt(it.Key(), where, "<< stands behind other names: expected it first")
			}
			continue
		}
		err := check(it.Key().GetToken().Value, it.Value())
		if _, ok := err.(*fault); err != nil && !ok {
			return faultAt(it.Key(), where, "%s", err)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// kindOf says what a node is, for an error.
func kindOf(n ast.Node) string {
	switch n.(type) {
	case ast.MapNode:
		return "a block of names and values"
	case *ast.SequenceNode:
		return "a list"
	}
	return fmt.Sprintf("%.40q", oneLine(n.String()))
}

// locate adds to an error of the gateway's block the line that it is about: that of the option, or, where it is not said, of
// what it is missing from. Other errors, and those of settings without a file, stay as they are.
func (d *document) locate(err error) error {
	path, ok := gateway.PlaceOf(err)
	if !ok || d == nil || d.gateway == nil {
		return err
	}
	return fmt.Errorf("config: %s:%d: %w", d.path, lineAt(d.gateway, path), err)
}

// lineAt follows path as far as it is written, and returns that line.
func lineAt(n ast.Node, path []any) int {
	line := lineOf(n)
	for _, step := range path {
		next, at := below(n, step)
		if next == nil {
			break
		}
		n, line = next, at
	}
	return line
}

// below returns what stands under a name or an index, and its line; nil where nothing does.
func below(n ast.Node, step any) (ast.Node, int) {
	if anchor, ok := n.(*ast.AnchorNode); ok {
		n = anchor.Value
	}
	switch node := n.(type) {
	case ast.MapNode:
		for it := node.MapRange(); it.Next(); {
			if it.Key().GetToken().Value == step {
				return it.Value(), lineOf(it.Key())
			}
		}
	case *ast.SequenceNode:
		if i, ok := step.(int); ok && i < len(node.Values) {
			return node.Values[i], lineOf(node.Values[i])
		}
	}
	return nil, 0
}
