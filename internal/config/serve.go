package config

import (
	"time"

	"onced/gateway"
)

// Serve are the settings of one node. The tags `name`, `help`, `default`,
// `placeholder` and `enum` are read by the command line's parser.
type Serve struct {
	Config string `name:"config" yaml:"-" placeholder:"FILE" help:"YAML file with these settings (same names, with _ for -) and the gateway's routes."`

	NodeID  string `name:"node-id" yaml:"node_id" placeholder:"NAME" help:"This node's name in the cluster (the host's name)."`
	DataDir string `name:"data-dir" yaml:"data_dir" placeholder:"DIR" default:"./onced-data" help:"Where this node keeps its log and table (${default})."`

	LogStore string `name:"log-store" yaml:"log_store" placeholder:"KIND" help:"What the log lies in: wal or bolt. One of the other kind is converted at the start (what it lies in, wal in a new directory)."`

	HTTPAddr    string `name:"http-addr" yaml:"http_addr" placeholder:"HOST:PORT" default:"127.0.0.1:8480" help:"Listens for the API (${default})."`
	GatewayAddr string `name:"gateway-addr" yaml:"gateway_addr" placeholder:"HOST:PORT" help:"Listens for the gateway, where routes are configured (the file's gateway.addr, else 127.0.0.1:8080)."`

	ClusterAddr       string `name:"cluster-addr" yaml:"cluster_addr" placeholder:"HOST:PORT" default:"127.0.0.1:8481" help:"Listens for the other nodes (${default})."`
	ClusterAdvertise  string `name:"cluster-advertise" yaml:"cluster_advertise" placeholder:"HOST:PORT" help:"Where the other nodes reach this one (its entry in --peers, else --cluster-addr)."`
	Peers             Peers  `name:"peers" yaml:"peers" placeholder:"ID=HOST:PORT,..." help:"The first members, the same list on every node, this one included. None: a cluster of one."`
	Join              string `name:"join" yaml:"join" placeholder:"HOST:PORT" help:"Instead of --peers: the cluster address of a member, to be asked for admission."`
	ClusterSecretFile string `name:"cluster-secret-file" yaml:"cluster_secret_file" placeholder:"FILE" help:"The secret that all nodes share: mutual TLS between them."`
	ClusterTLSCert    string `name:"cluster-tls-cert" yaml:"cluster_tls_cert" placeholder:"FILE" help:"Instead of TLS from the secret: this node's certificate, for both directions, in PEM."`
	ClusterTLSKey     string `name:"cluster-tls-key" yaml:"cluster_tls_key" placeholder:"FILE" help:"Its key."`
	ClusterTLSCA      string `name:"cluster-tls-ca" yaml:"cluster_tls_ca" placeholder:"FILE" help:"The authority that all nodes' certificates are of, and nobody else's."`

	HTTPTLSCert string `name:"http-tls-cert" yaml:"http_tls_cert" placeholder:"FILE" help:"TLS for the API: its certificate, with the intermediates, in PEM. SIGHUP reads it anew."`
	HTTPTLSKey  string `name:"http-tls-key" yaml:"http_tls_key" placeholder:"FILE" help:"Its key."`

	TokensFile string `name:"tokens-file" yaml:"tokens_file" placeholder:"FILE" help:"Who may call the API: a line for each token, as onced token new prints it. SIGHUP reads it anew."`
	NoAuth     bool   `name:"no-auth" yaml:"no_auth" help:"Ask no credentials: every caller is an operator, its tenant is the Onced-Tenant header's."`

	GatewaySecretFile string `name:"gateway-secret-file" yaml:"gateway_secret_file" placeholder:"FILE" help:"What keys the gateway's fingerprints and accounts, the same at every gateway of the cluster (the cluster's secret)."`

	MaxRequestBytes  Bytes `name:"max-request-bytes" yaml:"max_request_bytes" placeholder:"SIZE" default:"1MiB" help:"Largest body of an API call (${default})."`
	MaxResponseBytes Bytes `name:"max-response-bytes" yaml:"max_response_bytes" placeholder:"SIZE" default:"1MiB" help:"Largest stored answer (${default})."`

	TenantRate    float64 `name:"tenant-rate" yaml:"tenant_rate" placeholder:"N" help:"Reserves a second that each tenant may send to this node (any)."`
	TenantBurst   int     `name:"tenant-burst" yaml:"tenant_burst" placeholder:"N" help:"Reserves that it may send at once after a pause (those of one second)."`
	TenantMaxKeys int64   `name:"tenant-max-keys" yaml:"tenant_max_keys" placeholder:"N" help:"Records that each tenant may have in the table; the same on every node (any)."`

	RequestTimeout  time.Duration `name:"request-timeout" yaml:"request_timeout" placeholder:"DURATION" default:"10s" help:"How long a call tries to get its answer; a wait comes on top (${default})."`
	ElectionTimeout time.Duration `name:"election-timeout" yaml:"election_timeout" placeholder:"DURATION" default:"400ms" help:"How long a silent leader is trusted (${default})."`
	DrainTimeout    time.Duration `name:"drain-timeout" yaml:"drain_timeout" placeholder:"DURATION" help:"How long SIGTERM waits for requests under way (the longest route's timeout, at least 10s)."`

	MetricsByTenant bool `name:"metrics-by-tenant" yaml:"metrics_by_tenant" help:"Add the tenant to the counters of /metrics; mind how many tenants there are."`

	LogLevel  string `name:"log-level" yaml:"log_level" placeholder:"LEVEL" default:"info" help:"debug, info, warn or error (${default})."`
	LogFormat string `name:"log-format" yaml:"log_format" placeholder:"FORMAT" default:"text" help:"text or json (${default})."`

	// Gateway is the file's gateway block, nil without one. It has no flags.
	Gateway *gateway.Config `kong:"-" yaml:"gateway"`

	// GatewaySecret is what GatewaySecretFile holds, else Secret.
	GatewaySecret []byte `kong:"-" yaml:"-"`

	// Secret is what ClusterSecretFile holds, without the white space around it; nil without a file.
	Secret []byte `kong:"-" yaml:"-"`
}

// Bounds of the settings that have some.
const (
	MinElectionTimeout = 100 * time.Millisecond // below it a slow disk alone starts elections
	MaxElectionTimeout = 30 * time.Second
	MinRequestTimeout  = 100 * time.Millisecond
	MaxRequestTimeout  = 10 * time.Minute
	MinDrainTimeout    = 100 * time.Millisecond
	MaxDrainTimeout    = 24 * time.Hour
	MinTenantRate      = 0.001 // one in a quarter of an hour
	MaxTenantRate      = 1e6
	MaxTenantBurst     = 1_000_000
	// MaxBodyBytes bounds the two limits on bodies: an answer travels in one log entry, and heartbeats wait behind it.
	MaxBodyBytes Bytes = 8 << 20
)

// DefaultGatewayAddr is where the gateway listens when nothing says otherwise.
const DefaultGatewayAddr = "127.0.0.1:8080"
