package gateway

import (
	"errors"
	"net/http"
	"strings"

	"onced"
)

func tooLarge(max int64) error {
	return onced.Problemf(onced.CodeRequestTooLarge, "the request's body is larger than the %d bytes that this route takes", max)
}

// decodeBody undoes the content codings of a request, so that two compressions of one body are one
// body. It returns the coding that is left: "" when there is none, what the header says when it
// is unknown, or when the body is not what it says.
//
// Problems: request_too_large when the decoded body is beyond max bytes.
func decodeBody(h http.Header, body []byte, max int64) (plain []byte, coding string, err error) {
	coding = strings.Join(h["Content-Encoding"], ",")
	plain, err = decodeContent(coding, body, max)
	switch {
	case errors.Is(err, errDecodedTooLarge):
		return nil, "", tooLarge(max)
	case err != nil:
		return body, coding, nil
	}
	return plain, "", nil
}
