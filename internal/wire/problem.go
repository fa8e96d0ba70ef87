package wire

import (
	"cmp"
	"net/http"
	"strconv"
	"time"

	"onced"
)

// ProblemType is the media type of a problem (RFC 9457).
const ProblemType = "application/problem+json"

// ProblemPath is where every node explains its codes to a person; the code follows.
const ProblemPath = "/problems/"

var problemFields = []string{"code", "detail", "retry_after", "record"}

// ProblemForm is how a problem is told where that is not the way of the API.
type ProblemForm struct {
	Path     string // where its code is explained, ending in "/"; "" = ProblemPath
	Status   int    // the HTTP status it is sent with; 0 = that of its code
	Name     string // what its code is called; "" = the code itself
	Original int    // the status of the answer that was not kept; 0 = it is about none
}

// AppendProblem appends p as problem+json. status is the HTTP status it is sent
// with, 0 for that of its code.
func AppendProblem(dst []byte, p *onced.Problem, status int) []byte {
	return AppendProblemAs(dst, p, ProblemForm{Status: status})
}

// AppendProblemAs appends p as problem+json in another form.
func AppendProblemAs(dst []byte, p *onced.Problem, f ProblemForm) []byte {
	info := p.Code.Info()
	return appendObject(dst, func(o *object) {
		o.str("type", cmp.Or(f.Path, ProblemPath)+string(info.Code))
		o.str("title", info.Title)
		o.integer("status", uint64(cmp.Or(f.Status, info.Status)))
		o.str("detail", validText(p.Detail))
		o.str("code", cmp.Or(f.Name, string(info.Code)))
		o.str("retry", string(info.Retry))
		if seconds := p.RetryAfterSeconds(); seconds > 0 {
			o.integer("retry_after", uint64(seconds))
		}
		if f.Original != 0 {
			o.integer("original_status", uint64(f.Original))
		}
		if p.Record != nil {
			rec := *p.Record
			rec.Response = nil
			o.raw("record", AppendRecord(nil, rec))
		}
	})
}

// DecodeProblem reads the problem in the body of an answer with an error status. What is
// no problem of ours (a proxy's page, a code of a later release) becomes
// unavailable: the fate of the call is then not known.
func DecodeProblem(data []byte, status int) *onced.Problem {
	var p onced.Problem
	err := decodeAnswer(data, func(s *scanner) error {
		seen, err := s.object(problemFields, func(field string) (err error) {
			switch field {
			case "code":
				var code string
				code, err = s.str()
				p.Code = onced.Code(code)
			case "detail":
				p.Detail, err = s.str()
			case "retry_after":
				var n int64
				n, err = s.integer(0, int64(onced.MaxRetention/time.Second))
				p.RetryAfter = time.Duration(n) * time.Second
			case "record":
				var rec onced.Record
				rec, err = s.record()
				p.Record = &rec
			}
			return err
		})
		if err != nil {
			return err
		}
		return s.missing(problemFields, seen, "code", "the code of a problem")
	})
	switch {
	case err != nil:
		return onced.Problemf(onced.CodeUnavailable, "an answer with status %d that is no problem of a node: %v", status, err)
	case p.Code.Info().Code != p.Code:
		return onced.Problemf(onced.CodeUnavailable, "an answer with status %d and the unknown code %.60q: %s", status, p.Code, p.Detail)
	}
	return &p
}

// WriteProblem answers with p as problem+json, its Retry-After included. status is 0 for that of
// its code. The answer is never to be cached.
func WriteProblem(w http.ResponseWriter, p *onced.Problem, status int) {
	if status == 0 {
		status = p.Code.Info().Status
	}
	body := AppendProblem(nil, p, status)
	h := w.Header()
	h.Set("Content-Type", ProblemType)
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if seconds := p.RetryAfterSeconds(); seconds > 0 {
		h.Set("Retry-After", strconv.Itoa(seconds))
	}
	w.WriteHeader(status)
	// The client may be gone; there is nobody else to tell.
	_, _ = w.Write(body)
}
