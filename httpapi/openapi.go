package httpapi

import (
	_ "embed"
	"net/http"
	"strconv"
)

//go:embed openapi.yaml
var openAPIText []byte

// openAPI answers with the description of this API (OpenAPI 3.1), which the tests hold to the handlers.
func openAPI(w http.ResponseWriter, _ *http.Request) {
	h := w.Header()
	h.Set("Content-Type", "application/yaml")
	h.Set("Content-Length", strconv.Itoa(len(openAPIText)))
	h.Set("Cache-Control", "max-age=3600")
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write(openAPIText)
}
