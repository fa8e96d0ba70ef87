package main

import (
	"os"
	"os/signal"
	"reflect"
	"syscall"
	"time"

	"onced/gateway"
	"onced/internal/tokens"
)

// serveThrough is called before anything else by a command that serves, so that two signals do not end it:
//
//   - a SIGHUP that comes while it still starts is kept for watchHangups;
//   - where nobody reads its log any more, a line that cannot be written is lost, and raises no SIGPIPE.
func serveThrough() (hangups chan os.Signal) {
	signal.Ignore(syscall.SIGPIPE)
	hangups = make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	return hangups
}

// watchHangups does reloads, one after the other, at every SIGHUP, until the returned
// function is called. After that a SIGHUP changes nothing.
func watchHangups(hangups <-chan os.Signal, reloads ...func()) (stop func()) {
	done := make(chan struct{})
	go func() {
		for {
			select {
			case <-hangups:
				for _, reload := range reloads {
					reload()
				}
			case <-done:
				return
			}
		}
	}()
	return func() { close(done) }
}

// reloadTokens puts the tokens file in force, whatever becomes of the other settings: a token that
// is revoked must not stay for a fault of theirs. A broken file leaves the old tokens in force.
func (s *server) reloadTokens() {
	if s.credentials == nil {
		return
	}
	table, err := tokens.Load(s.settings.TokensFile)
	if err != nil {
		s.log.Error("reload: the old tokens stay in force", "err", err)
		return
	}
	s.credentials.Use(table)
	s.log.Info("reload: the tokens are in force", "tokens", table.Len())
	s.warnNobody(table.Len())
}

// warnNobody says that a tokens file without any token lets nobody in.
func (s *server) warnNobody(tokens int) {
	if tokens == 0 {
		s.log.Warn("tokens_file: has no token: every call is refused")
	}
}

// reloadCertificates reads the files of the TLS between the nodes anew; connections are made again under
// others than before. Broken files leave the old ones in force. So does it with the API's, whose connections stay.
func (s *server) reloadCertificates() {
	if err := s.node.ReloadTLS(); err != nil {
		s.log.Error("reload: the old certificates stay in force", "err", err)
	}
	if s.certificate == nil {
		return
	}
	if err := s.certificate.Reload(); err != nil {
		s.log.Error("reload: the old certificate of the API stays in force", "err", err)
		return
	}
	s.log.Info("reload: the certificate of the API is in force")
	s.warnCertificate()
}

// warnCertificate says why callers will refuse the API's certificate, where they will.
func (s *server) warnCertificate() {
	if s.certificate == nil {
		return
	}
	if err := s.certificate.Flaw(time.Now()); err != nil {
		s.log.Warn("http_tls_cert: callers will refuse it", "err", err)
	}
}

// reloadRoutes puts the file's routes in force. A broken file leaves the old ones,
// and one line in the log; so does a change that needs a restart.
func (s *server) reloadRoutes() {
	next, err := s.reload()
	if err != nil {
		s.log.Error("reload: the old settings stay in force", "err", err)
		return
	}
	s.useRoutes(next.Gateway, needRestart(s.settings, next))
}

// useRoutes puts the routes of next in force, nil where there are none. rest are the other settings that changed.
func (f *front) useRoutes(next *gateway.Config, rest []string) {
	if len(rest) > 0 {
		f.log.Warn("reload: some changed settings need a restart", "settings", rest)
	}
	if f.door == nil || next == nil {
		if f.door != nil || next != nil {
			f.log.Error("reload: the old settings stay in force: a gateway comes or goes only with a restart")
		}
		return
	}
	if err := f.door.Reload(*next); err != nil {
		f.log.Error("reload: the old routes stay in force", "err", err)
		return
	}
	f.log.Info("reload: the routes are in force", "routes", len(next.Routes))
}

// needRestart lists the settings that differ between now and next and that nothing can change
// in a running node.
func needRestart(now, next any) (names []string) {
	a, b := reflect.ValueOf(now), reflect.ValueOf(next)
	for i := range a.NumField() {
		name := a.Type().Field(i).Tag.Get("name")
		if name != "" && !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			names = append(names, name)
		}
	}
	return names
}
