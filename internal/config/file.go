package config

import (
	"encoding"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"onced/gateway"
)

// document is a configuration file that was read.
type document struct {
	path    string
	gateway ast.Node // its gateway block; nil without one
}

// decodeFile reads the YAML document of path over s, a pointer to settings, key by key, so that an
// error can name the line and the key. Unknown and repeated keys and a second
// document are errors; a file without any says nothing.
func decodeFile(path string, s any) (*document, error) {
	d := &document{path: path}
	raw, err := os.ReadFile(path)
	if err != nil {
		return d, fmt.Errorf("config: opening the file: %w", err)
	}
	return d, d.decode(raw, s)
}

func (d *document) decode(raw []byte, s any) error {
	path := d.path
	parsed, err := parser.ParseBytes(raw, 0)
	if err != nil {
		line, message := position(err)
		return fmt.Errorf("config: %s:%d: %s", path, line, message)
	}
	if len(parsed.Docs) > 1 {
		return fmt.Errorf("config: %s: has more than one YAML document; expected one", path)
	}
	if len(parsed.Docs) == 0 || isEmpty(parsed.Docs[0].Body) {
		return nil
	}
	mapping, ok := parsed.Docs[0].Body.(ast.MapNode)
	if !ok {
		return fmt.Errorf("config: %s:%d: expected settings, one `name: value` a line", path, parsed.Docs[0].Body.GetToken().Position.Line)
	}
	for it := mapping.MapRange(); it.Next(); {
		if it.Key().GetToken().Value == "gateway" {
			d.gateway = it.Value()
		}
		if err := decodeKey(it.Key(), it.Value(), s); err != nil {
			line, message := position(err)
			if f := (*fault)(nil); errors.As(err, &f) {
				line = f.line
			}
			if line == 0 {
				line = it.Key().GetToken().Position.Line
			}
			return fmt.Errorf("config: %s:%d: %s", path, line, message)
		}
	}
	return nil
}

// textUnmarshaler is the interface of the types whose errors say what they expect.
var textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()

func isEmpty(n ast.Node) bool {
	switch n.(type) {
	case nil, *ast.NullNode, *ast.CommentGroupNode:
		return true
	}
	return false
}

// decodeKey sets the field of s that key names. A key without a value empties it.
func decodeKey(key ast.MapKeyNode, value ast.Node, s any) error {
	name := key.GetToken().Value
	field, ok := fieldOf(s, name)
	if !ok {
		return fmt.Errorf("unknown field %q", name)
	}
	if isEmpty(value) {
		field.SetZero()
		return nil
	}
	if _, ok := field.Interface().(*gateway.Config); ok {
		if err := checkBlock(value, field.Type().Elem(), name); err != nil {
			return err
		}
	}
	into := field.Addr()
	if field.Kind() == reflect.Pointer {
		field.Set(reflect.New(field.Type().Elem()))
		into = field
	}
	// The parser has refused a name that stands twice; here only one that also comes from a merge (<<) can.
	err := yaml.NodeToValue(value, into.Interface(), yaml.Strict(), yaml.AllowDuplicateMapKey())
	if err == nil && !cutShort(field, value) {
		return nil
	}
	if _, scalar := value.(ast.ScalarNode); !scalar && into.Type().Implements(textUnmarshaler) {
		return fmt.Errorf("%s: expected a text on one line, not %s", name, kindOf(value))
	}
	if want := expected(field); want != "" {
		return fmt.Errorf("%s: expected %s, not %.40q", name, want, oneLine(value.String()))
	}
	if into.Type().Implements(textUnmarshaler) {
		return fmt.Errorf("%s: %w", name, err)
	}
	return err
}

// cutShort tells whether value is no whole number and field is one: the decoder would cut off the rest.
func cutShort(field reflect.Value, value ast.Node) bool {
	switch field.Interface().(type) {
	case int, int64:
		_, whole := value.(*ast.IntegerNode)
		return !whole
	}
	return false
}

// fieldOf returns the field whose YAML key is name.
func fieldOf(s any, name string) (reflect.Value, bool) {
	v := reflect.ValueOf(s).Elem()
	for i := range v.NumField() {
		if key := v.Type().Field(i).Tag.Get("yaml"); key == name && key != "-" {
			return v.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// expected says what a plain field takes; "" where the type's own error says it.
func expected(field reflect.Value) string {
	switch field.Interface().(type) {
	case time.Duration:
		return "a duration with its unit, such as 10s"
	case bool:
		return "true or false"
	case float64:
		return "a number"
	case int, int64:
		return "a whole number"
	case string:
		return "a text"
	}
	return ""
}

// position splits a YAML error, which quotes the file over many lines, into the
// line it is about (0 when it has none) and one line of text.
func position(err error) (line int, message string) {
	var y yaml.Error
	if !errors.As(err, &y) {
		return 0, oneLine(err.Error())
	}
	if t := y.GetToken(); t != nil && t.Position != nil {
		line = t.Position.Line
	}
	return line, oneLine(y.GetMessage())
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
