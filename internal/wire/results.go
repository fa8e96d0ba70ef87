package wire

import "onced"

var (
	resultsFields = []string{"results"}
	resultFields  = []string{"status"}
)

// Result is what became of one operation of a batch.
type Result struct {
	Status int    // HTTP status of the call
	Body   []byte // the object that the call would have answered with, and "status"
}

// AppendResults appends the answer to a batch.
func AppendResults(dst []byte, results []Result) []byte {
	return appendObject(dst, func(o *object) {
		o.member("results")
		o.buf = append(o.buf, '[')
		for i, r := range results {
			if i > 0 {
				o.buf = append(o.buf, ',')
			}
			o.buf = append(o.buf, r.Body...)
		}
		o.buf = append(o.buf, ']')
	})
}

// NewResult is the result of an operation whose call answers with status and body, an object
// with members.
func NewResult(status int, body []byte) Result {
	r := Result{Status: status}
	r.Body = appendObject(make([]byte, 0, len(body)+16), func(o *object) {
		o.integer("status", uint64(status))
		o.buf = append(o.buf, ',')
		o.buf = append(o.buf, body[1:len(body)-1]...)
	})
	return r
}

// ProblemResult is the result of an operation that is refused.
func ProblemResult(p *onced.Problem) Result {
	return Result{Status: p.Code.Info().Status, Body: AppendProblem(nil, p, 0)}
}

// DecodeResults reads the answer to a batch. Each Body is in the form that the decoder of
// that call's answer reads, or DecodeProblem where Status is 400 or more.
func DecodeResults(data []byte) ([]Result, error) {
	var results []Result
	err := decodeAnswer(data, func(s *scanner) error {
		seen, err := s.object(resultsFields, func(string) error {
			return s.array(func(int) error {
				r, err := s.result()
				results = append(results, r)
				return err
			})
		})
		if err != nil {
			return err
		}
		return s.missing(resultsFields, seen, "results", "an array")
	})
	return results, err
}

func (s *scanner) result() (Result, error) {
	var r Result
	s.peek()
	start := s.pos
	seen, err := s.object(resultFields, func(string) error {
		n, err := s.integer(100, 599)
		r.Status = int(n)
		return err
	})
	if err != nil {
		return r, err
	}
	r.Body = append(r.Body, s.data[start:s.pos]...)
	return r, s.missing(resultFields, seen, "status", "the HTTP status of the call")
}
