package gateway

import (
	"cmp"
	"net/http"
	"strconv"

	"onced"
	"onced/internal/wire"
)

// refusal is a problem on its way to a client.
type refusal struct {
	problem  *onced.Problem
	status   int // 0 = the contract's
	original int // response_not_kept: the status of the answer that was
}

// said is a refusal in the words of a contract.
type said struct {
	problem  *onced.Problem // without its record
	status   int
	name     string // of the code
	kind     string // of the contract's own; "" = none
	retry    onced.Advice
	original int
}

// render returns status, headers and body of a refusal. The record that the problem is about stays here:
// its token is none of a client's business.
func (ct *contract) render(f refusal) (int, http.Header, []byte) {
	info := f.problem.Code.Info()
	problem, as := *f.problem, ct.told[info.Code]
	problem.Code, problem.Record = info.Code, nil
	s := said{
		problem: &problem, status: cmp.Or(f.status, as.status, info.Status), name: cmp.Or(as.name, string(info.Code)),
		kind: as.kind, retry: info.Retry, original: f.original,
	}
	h := http.Header{"Cache-Control": {"no-store"}}
	if seconds := problem.RetryAfterSeconds(); seconds > 0 {
		h.Set("Retry-After", strconv.Itoa(seconds))
	}
	if ct.shouldRetry != "" {
		h[ct.shouldRetry] = []string{strconv.FormatBool(info.Retry == onced.RetrySameKey)}
	}
	return s.status, h, ct.write(h, s)
}

// page is where the problem is explained to a person.
func (s said) page() string { return problemPath + string(s.problem.Code) }

// writeProblem writes problem+json (RFC 9457) in the API's shape.
func writeProblem(h http.Header, s said) []byte {
	h.Set("Content-Type", wire.ProblemType)
	form := wire.ProblemForm{Path: problemPath, Status: s.status, Name: s.name, Original: s.original}
	return append(wire.AppendProblemAs(nil, s.problem, form), '\n')
}

// writeLinkedProblem is writeProblem with the explanation as a Link too.
func writeLinkedProblem(h http.Header, s said) []byte {
	h.Set("Link", "<"+s.page()+`>; rel="describedby"; type="text/html"`)
	return writeProblem(h, s)
}
