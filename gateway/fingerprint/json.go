package fingerprint

import (
	"bytes"
	"encoding/binary"
	"sort"
	"strconv"
)

// maxDepth bounds the nesting that is compared by meaning; deeper is compared raw.
const maxDepth = 128

// canonicalJSON returns an encoding of the JSON text in body that is equal for two
// texts of the same meaning: members sorted by name, strings unescaped, numbers as written,
// white space gone. It is not JSON: every piece has its length before it, so that
// two meanings never share an encoding.
//
// It returns false for anything that is not certainly one JSON text (RFC 8259, strict
// UTF-8), for repeated members anywhere, and for nesting beyond maxDepth.
func canonicalJSON(body []byte, ignore *pointers) ([]byte, bool) {
	p := &jsonParser{in: body}
	out, ok := p.value(make([]byte, 0, len(body)+16), ignore, 0)
	p.space()
	if !ok || p.pos != len(body) {
		return nil, false
	}
	return out, true
}

// Tags of the encoding.
const (
	tagObject  = '{'
	tagArray   = '['
	tagString  = 's'
	tagNumber  = 'n'
	tagTrue    = 't'
	tagFalse   = 'f'
	tagNull    = 'z'
	tagIgnored = 'x' // an array element that does not count, but keeps its place
)

type jsonParser struct {
	in  []byte
	pos int
}

func (p *jsonParser) space() {
	for p.pos < len(p.in) && (p.in[p.pos] == ' ' || p.in[p.pos] == '\t' || p.in[p.pos] == '\n' || p.in[p.pos] == '\r') {
		p.pos++
	}
}

// peek returns the next byte after white space, 0 at the end.
func (p *jsonParser) peek() byte {
	p.space()
	if p.pos == len(p.in) {
		return 0
	}
	return p.in[p.pos]
}

// take consumes c after white space.
func (p *jsonParser) take(c byte) bool {
	if p.peek() != c {
		return false
	}
	p.pos++
	return true
}

func (p *jsonParser) value(out []byte, ignore *pointers, depth int) ([]byte, bool) {
	if depth > maxDepth {
		return nil, false
	}
	switch c := p.peek(); {
	case c == '{':
		return p.object(out, ignore, depth)
	case c == '[':
		return p.array(out, ignore, depth)
	case c == '"':
		s, ok := p.text()
		return appendPiece(append(out, tagString), s), ok
	case c == 't':
		return append(out, tagTrue), p.word("true")
	case c == 'f':
		return append(out, tagFalse), p.word("false")
	case c == 'n':
		return append(out, tagNull), p.word("null")
	default:
		literal, ok := p.number()
		return appendPiece(append(out, tagNumber), literal), ok
	}
}

func (p *jsonParser) word(w string) bool {
	if !bytes.HasPrefix(p.in[p.pos:], []byte(w)) {
		return false
	}
	p.pos += len(w)
	return true
}

type member struct {
	name  string
	value []byte
}

func (p *jsonParser) object(out []byte, ignore *pointers, depth int) ([]byte, bool) {
	members, ok := p.members(ignore, depth)
	if !ok {
		return nil, false
	}
	sort.Slice(members, func(i, j int) bool { return members[i].name < members[j].name })
	var kept int
	for i, m := range members {
		if i > 0 && m.name == members[i-1].name {
			return nil, false // which one counts, no two upstreams agree
		}
		if m.value != nil {
			kept++
		}
	}
	out = binary.AppendUvarint(append(out, tagObject), uint64(kept))
	for _, m := range members {
		if m.value != nil {
			out = append(appendPiece(out, []byte(m.name)), m.value...)
		}
	}
	return out, true
}

// members reads an object. An ignored member has no value.
func (p *jsonParser) members(ignore *pointers, depth int) ([]member, bool) {
	p.pos++ // the brace
	var members []member
	if p.take('}') {
		return nil, true
	}
	for {
		if p.peek() != '"' {
			return nil, false
		}
		name, ok := p.text()
		if !ok || !p.take(':') {
			return nil, false
		}
		below := ignore.child(string(name))
		value, ok := p.value(nil, below, depth+1)
		if !ok {
			return nil, false
		}
		if below.isIgnored() {
			value = nil
		}
		members = append(members, member{string(name), value})
		if p.take('}') {
			return members, true
		}
		if !p.take(',') {
			return nil, false
		}
	}
}

func (p *jsonParser) array(out []byte, ignore *pointers, depth int) ([]byte, bool) {
	p.pos++ // the bracket
	var elements []byte
	count := 0
	for first := true; ; first = false {
		if first && p.take(']') {
			break
		}
		below := ignore.child(strconv.Itoa(count))
		start := len(elements)
		var ok bool
		if elements, ok = p.value(elements, below, depth+1); !ok {
			return nil, false
		}
		if below.isIgnored() {
			elements = append(elements[:start], tagIgnored)
		}
		count++
		if p.take(']') {
			break
		}
		if !p.take(',') {
			return nil, false
		}
	}
	return append(binary.AppendUvarint(append(out, tagArray), uint64(count)), elements...), true
}

func appendPiece(out, piece []byte) []byte {
	return append(binary.AppendUvarint(out, uint64(len(piece))), piece...)
}
