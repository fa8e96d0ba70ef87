package httpapi

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"time"

	"onced"
)

const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second // of head and body; a call's own time starts after it
	idleTimeout       = 2 * time.Minute
	writeTimeout      = 30 * time.Second // of an answer, once it is decided
	maxHeaderBytes    = 32 << 10
)

// ServerConfig is what NewServer needs.
type ServerConfig struct {
	Addr           string // host:port
	Handler        http.Handler
	RequestTimeout time.Duration // the same as Config's; 0 = DefaultRequestTimeout
	TLS            *tls.Config   // nil = plain HTTP
	Logger         *slog.Logger  // for what net/http has to say of connections; nil = nothing
}

// NewServer returns a server that no slow client can hold up: each part of a request has
// its time, and its head its size. The caller starts and stops it.
func NewServer(cfg ServerConfig) *http.Server {
	if cfg.RequestTimeout == 0 {
		cfg.RequestTimeout = DefaultRequestTimeout
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &http.Server{
		Addr:              cfg.Addr,
		Handler:           cfg.Handler,
		TLSConfig:         cfg.TLS,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		// net/http counts it from the end of the head, so the body, the wait and the call itself are in it.
		WriteTimeout:   readTimeout + onced.MaxWait + cfg.RequestTimeout + writeTimeout,
		IdleTimeout:    idleTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		ErrorLog:       slog.NewLogLogger(cfg.Logger.Handler(), slog.LevelDebug),
	}
}
