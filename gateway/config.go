package gateway

import (
	"time"

	"onced/gateway/fingerprint"
)

// Config is the `gateway:` block of the configuration file, as written. The file
// is decoded strictly, so that an unknown key is an error there. [Config.Validate] and
// [New] judge the rest.
type Config struct {
	Addr     string  `yaml:"addr"`     // where the gateway listens, host:port; read by the command
	Upstream string  `yaml:"upstream"` // http://host:port, https://host:port or h2c://host:port, no path
	Tenant   string  `yaml:"tenant"`   // header:NAME, authorization or single; must be said
	Routes   []Route `yaml:"routes"`   // the first that matches counts

	TLSCert     string   `yaml:"tls_cert"`     // PEM file of the listener's certificate; both or neither
	TLSKey      string   `yaml:"tls_key"`      // PEM file of its key
	UpstreamCA  string   `yaml:"upstream_ca"`  // PEM file of who an https upstream's certificate is to be from; "" = the system's
	CORSOrigins []string `yaml:"cors_origins"` // whose pages may read refusals and replays; none by default

	Blobs         *Blobs   `yaml:"blobs"`           // where larger answers are kept; nil = nowhere
	DetectWindow  Duration `yaml:"detect_window"`   // 1m; 0s = the same payload under several keys is not looked for
	MaxBodyMemory Size     `yaml:"max_body_memory"` // 256MiB of bodies at once
	HeaderTimeout Duration `yaml:"header_timeout"`  // 10s, of a request's head; a restart puts it in force
	BodyTimeout   Duration `yaml:"body_timeout"`    // 10s, of a request's body, and a second more for each
	MinBodyRate   Size     `yaml:"min_body_rate"`   // 16KiB of it
}

// Route is one entry of Config.Routes. A field that is not said has its default.
type Route struct {
	Match             string              `yaml:"match"`       // "METHOD /path/{name}/*"; no method = POST and PATCH
	Key               string              `yaml:"key"`         // required (default), optional or off
	KeyPattern        string              `yaml:"key_pattern"` // a regular expression over the whole key; under ietf over the header, if it begins with a quote
	Scope             string              `yaml:"scope"`       // account (default) or route
	Contract          string              `yaml:"contract"`    // default, ietf, stripe or realtime; it has the defaults of retention, on_unknown, store and release
	Lease             Duration            `yaml:"lease"`       // 30s
	Timeout           Duration            `yaml:"timeout"`     // 30s, of the whole operation at the upstream
	Retention         Duration            `yaml:"retention"`   // 24h; realtime 720h
	Tombstone         Duration            `yaml:"tombstone"`   // 0s
	Wait              Duration            `yaml:"wait"`        // 0s
	OnUnknown         string              `yaml:"on_unknown"`  // hold (default; realtime: retry), retry or probe
	Probe             string              `yaml:"probe"`       // the look-up of on_unknown: probe, "GET /path?key={key}"
	Store             []string            `yaml:"store"`       // [2xx, 3xx, 4xx]; stripe and realtime have others
	Release           []string            `yaml:"release"`     // [401, 408, 421, 425, 429, 503]; stripe and realtime have others
	Fingerprint       Fingerprint         `yaml:"fingerprint"`
	KeepHeaders       []string            `yaml:"keep_headers"`        // of those that are never replayed by default
	MaxRequest        Size                `yaml:"max_request"`         // 1MiB
	MaxResponse       Size                `yaml:"max_response"`        // 1MiB
	MaxConcurrent     Count               `yaml:"max_concurrent"`      // 1024 requests at the upstream at once
	ReuseConnections  bool                `yaml:"reuse_connections"`   // kept-alive connections to the upstream
	RetentionByStatus map[string]Duration `yaml:"retention_by_status"` // by code or class, the code wins
}

// Fingerprint says what of a request counts when a key comes again.
type Fingerprint struct {
	Body         fingerprint.Mode `yaml:"body"`          // auto (default), raw or none
	Headers      []string         `yaml:"headers"`       // names
	IgnoreFields []string         `yaml:"ignore_fields"` // JSON pointers
}

// Validate returns an error that names the route, the field and what is expected, for
// the first thing in c that is wrong, unsafe or not built.
func (c Config) Validate() error {
	_, err := compile(c, nil)
	return err
}

// LongestTimeout returns the longest time-out of a protected route, 0 when there
// is none. c must be valid. It is how long a drain can take.
func (c Config) LongestTimeout() time.Duration {
	var longest time.Duration
	for _, r := range c.Routes {
		if r.Key == keyOff {
			continue
		}
		if d, err := r.Timeout.or(defaultTimeout); err == nil {
			longest = max(longest, d)
		}
	}
	return longest
}
