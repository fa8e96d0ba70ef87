package gateway

import "errors"

// placed is an error of the block that knows where in it the fault is.
type placed struct {
	text string // before the error's own
	path []any  // below the place of whatever wraps this one: names, and indexes of lists
	err  error
}

func (p *placed) Error() string { return p.text + p.err.Error() }
func (p *placed) Unwrap() error { return p.err }

// at says that err is about the field name of what is being judged, or about what stands below it.
// A nil err stays nil.
func at(name string, err error) error {
	if err == nil {
		return nil
	}
	return &placed{text: name + ": ", path: []any{name}, err: err}
}

// item says that err is about an entry of a list, which its text names itself.
func item(i int, err error) error {
	if err == nil {
		return nil
	}
	return &placed{path: []any{i}, err: err}
}

// PlaceOf returns where in the block an error of [Config.Validate] or [New] is: the names and the indexes
// that lead there, such as "routes", 2, "lease". What stands there may be missing in the file. False
// means that the error is of no such place.
func PlaceOf(err error) ([]any, bool) {
	var path []any
	found := false
	for p := (*placed)(nil); errors.As(err, &p); err = p.err {
		path, found = append(path, p.path...), true
	}
	return path, found
}
