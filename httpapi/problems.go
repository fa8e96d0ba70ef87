package httpapi

import (
	"net/http"

	"github.com/gorilla/mux"

	"onced"
	"onced/internal/explain"
	"onced/internal/wire"
)

// explainOne answers /problems/{code}.
func explainOne(w http.ResponseWriter, r *http.Request) {
	code := onced.Code(mux.Vars(r)["code"])
	if !explain.One(w, r, wire.ProblemPath, code) {
		p := onced.Problemf(onced.CodeInvalidRequest, "%.60q is no code of a problem; %s lists them", string(code), wire.ProblemPath)
		wire.WriteProblem(w, p, http.StatusNotFound)
	}
}

// explainAll answers /problems/.
func explainAll(w http.ResponseWriter, r *http.Request) { explain.All(w, r, wire.ProblemPath) }
