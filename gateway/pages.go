package gateway

import (
	"net/http"
	"strings"

	"onced"
	"onced/internal/explain"
)

// problemPath is where the gateway explains the codes of its refusals to a person, on its own port. The
// type of a refusal points there. Nothing below it reaches the upstream.
const problemPath = "/.onced/problems/"

// explained answers a request for a page about problems, and returns false for any other.
func explained(w http.ResponseWriter, r *http.Request) bool {
	code, ours := strings.CutPrefix(r.URL.Path, problemPath)
	switch {
	case !ours:
		return false
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		noPage(w, r, http.StatusMethodNotAllowed, "%.20q is not taken here: expected GET", r.Method)
	case code == "":
		explain.All(w, r, problemPath)
	case !explain.One(w, r, problemPath, onced.Code(code)):
		noPage(w, r, http.StatusNotFound, "%.60q is no code of a problem; %s lists them", code, problemPath)
	}
	return true
}

func noPage(w http.ResponseWriter, r *http.Request, status int, format string, args ...any) {
	status, h, body := standard.render(refusal{problem: onced.Problemf(onced.CodeInvalidRequest, format, args...), status: status})
	if status == http.StatusMethodNotAllowed {
		h.Set("Allow", "GET, HEAD")
	}
	newClient(w, r, standard).send(status, h, body)
}
