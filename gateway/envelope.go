package gateway

import (
	"encoding/json"
	"net/http"

	"onced"
)

// The types of Stripe's errors that its official clients tell apart.
const (
	stripeAPI         = "api_error"
	stripeIdempotency = "idempotency_error"
	stripeRequest     = "invalid_request_error"
)

// envelope is the body of an error as Stripe's API has it. Members that its clients do not know are
// passed over by them.
type envelope struct {
	Error stripeError `json:"error"`
}

type stripeError struct {
	Type     string       `json:"type"`
	Code     string       `json:"code"`
	Message  string       `json:"message"`
	DocURL   string       `json:"doc_url"`
	Retry    onced.Advice `json:"retry"`
	Original int          `json:"original_status,omitempty"`
}

// writeEnvelope writes Stripe's error envelope. A problem without a type of its own has that of its
// status' class.
func writeEnvelope(h http.Header, s said) []byte {
	kind := s.kind
	switch {
	case kind != "":
	case s.status >= 500:
		kind = stripeAPI
	default:
		kind = stripeRequest
	}
	h.Set("Content-Type", "application/json")
	body, err := json.MarshalIndent(envelope{stripeError{
		Type: kind, Code: s.name, Message: s.problem.Detail, DocURL: s.page(), Retry: s.retry, Original: s.original,
	}}, "", "  ")
	if err != nil {
		return nil // cannot be: the shape has nothing that JSON does not take
	}
	return append(body, '\n')
}
