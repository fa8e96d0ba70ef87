package gateway

import (
	"errors"
	"fmt"
	"net"
	"reflect"
	"time"
)

// settings are the fields of the block that are no route's.
func (t *table) settings(c Config, secret []byte) []field {
	return []field{
		{"upstream", func() (err error) {
			if t.upstream, err = parseUpstream(c.Upstream); err == nil && c.Addr != "" && sameAddress(c.Addr, t.upstream.Host) {
				err = fmt.Errorf("it is the gateway's own addr, %s: every request would come back to it", c.Addr)
			}
			return err
		}},
		{"upstream_ca", func() (err error) { t.roots, err = readRoots(c.UpstreamCA, t.upstream); return }},
		{"tls_cert", func() (err error) { t.certificate, err = readCertificate(c.TLSCert, c.TLSKey); return }},
		{"cors_origins", func() (err error) { t.cors, err = parseOrigins(c.CORSOrigins); return }},
		{"tenant", func() (err error) { t.account, err = parseAccount(c.Tenant, secret); return }},
		{"blobs", func() (err error) { t.blobPlan, err = compileBlobs(c.Blobs); return }},
		{"detect_window", func() (err error) { t.detectWindow, err = c.DetectWindow.within(time.Minute, 0, time.Hour); return }},
		{"max_body_memory", func() (err error) {
			t.bodyMemory, err = c.MaxBodyMemory.within(defaultBodyMemory, mostBodyMemory)
			return
		}},
		{"header_timeout", func() (err error) {
			t.headerTimeout, err = c.HeaderTimeout.within(defaultHeaderTimeout, 100*time.Millisecond, time.Hour)
			return
		}},
		{"body_timeout", func() (err error) {
			t.pace.allowed, err = c.BodyTimeout.within(defaultBodyTimeout, 100*time.Millisecond, time.Hour)
			return
		}},
		{"min_body_rate", func() (err error) { t.pace.rate, err = c.MinBodyRate.within(defaultBodyRate, maxBody); return }},
	}
}

// sameAddress tells whether two addresses are spelled alike, port and all.
func sameAddress(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	return errA == nil && errB == nil && portA == portB && portA != "0" && (hostA == hostB || isLocal(hostA) && isLocal(hostB))
}

func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || host == "" || ip != nil && (ip.IsLoopback() || ip.IsUnspecified())
}

// roomy checks that the largest request of every protected route can be held at all.
func (t *table) roomy() error {
	for i, rt := range t.routes {
		if rt.protected() && rt.maxRequest > t.bodyMemory {
			return at("max_body_memory", fmt.Errorf("%d bytes are less than routes[%d] (%s) takes in one request (max_request %d)", t.bodyMemory, i, rt.pattern.text, rt.maxRequest))
		}
	}
	return nil
}

func (rt *route) setConcurrent(c Count) error {
	def := int64(defaultConcurrent)
	if rt.key == keyOff { // streams and upgrades last; who wants a bound says so
		def = mostConcurrent
	}
	var err error
	rt.maxConcurrent, err = c.within(def, mostConcurrent)
	return err
}

// consistent refuses what cannot be meant together. Each field is right by itself.
func (rt *route) consistent(r Route) error {
	if rt.key == keyOff {
		return needless(r)
	}
	for text := range r.RetentionByStatus {
		if !rt.stores(text) {
			return at("retention_by_status", &placed{path: []any{text}, err: fmt.Errorf("%s is never stored by this route, so it has no retention: expected a status of store", text)})
		}
	}
	return nil
}

// stores tells whether any status of a valid code or class is stored.
func (rt *route) stores(text string) bool {
	code, class, _ := parseStatus(text)
	for status := 200; status < 600; status++ {
		if d := rt.dispositionOf(status); (status == code || status/100 == class) && (d == keepAnswer || d == keepDone) {
			return true
		}
	}
	return false
}

var errNeedless = errors.New("it is said beside key: off, but nothing of this route is protected or kept: remove it, or say key: required")

// needless refuses an option that key: off makes void: whoever wrote it believes that the route is protected.
func needless(r Route) error {
	v := reflect.ValueOf(r)
	for i := range v.NumField() {
		switch name := v.Type().Field(i).Tag.Get("yaml"); name {
		case "match", "key", "max_concurrent":
		default:
			if !v.Field(i).IsZero() {
				return at(name, errNeedless)
			}
		}
	}
	return nil
}
