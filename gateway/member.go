package gateway

import (
	"bytes"
	"encoding/json"
)

// setMember returns the JSON object body with a member set at its top level: in the place of the value of
// every member of that name, or else as the first one. All other bytes stay as they are: literals, order and
// white space. name is plain ASCII, value is JSON. It returns false where body is no JSON object.
func setMember(body []byte, name, value string) ([]byte, bool) {
	if !json.Valid(body) {
		return nil, false
	}
	in := json.NewDecoder(bytes.NewReader(body))
	if first, err := in.Token(); err != nil || first != json.Delim('{') {
		return nil, false
	}
	begin, members := in.InputOffset(), in.More()
	out, copied := make([]byte, 0, len(body)+len(name)+len(value)+4), int64(0)
	for in.More() {
		start, end, own, err := nextMember(in, name)
		if err != nil {
			return nil, false
		}
		if own {
			out = append(append(out, body[copied:start]...), value...)
			copied = end
		}
	}
	if copied == 0 {
		out = append(append(append(append(out, body[:begin]...), '"'), name...), `":`...)
		out, copied = append(out, value...), begin
		if members {
			out = append(out, ',')
		}
	}
	return append(out, body[copied:]...), true
}

// nextMember reads one member. It returns where its value is, and whether it has the name, however that is
// escaped.
func nextMember(in *json.Decoder, name string) (start, end int64, own bool, err error) {
	read, err := in.Token()
	if err != nil {
		return 0, 0, false, err
	}
	var value json.RawMessage
	if err := in.Decode(&value); err != nil {
		return 0, 0, false, err
	}
	end = in.InputOffset()
	return end - int64(len(value)), end, read == name, nil
}
