package config

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"

	"onced/client"
	"onced/gateway"
)

// Gateway are the settings of a gateway that is a process of its own, before a remote cluster. Names that Serve
// has too mean the same.
type Gateway struct {
	Config string `name:"config" yaml:"-" placeholder:"FILE" help:"YAML file with these settings (same names, with _ for -) and the gateway's routes."`

	Nodes string `name:"nodes" yaml:"nodes" placeholder:"URL,..." default:"http://127.0.0.1:8480" help:"The nodes' API addresses, the preferred one first (${default})."`
	CA    string `name:"ca" yaml:"ca" placeholder:"FILE" help:"The authorities that the certificates of https:// nodes are of, in PEM (the system's)."`

	Token     string `name:"token" yaml:"token" placeholder:"TOKEN" help:"Credential for the nodes, of the role gateway. Rather put it into a file: other users of the machine see a command's flags."`
	TokenFile string `name:"token-file" yaml:"token_file" placeholder:"FILE" help:"The same out of a file. SIGHUP reads it anew."`

	GatewaySecretFile string `name:"gateway-secret-file" yaml:"gateway_secret_file" placeholder:"FILE" help:"What keys fingerprints and accounts, the same at every gateway of the cluster, those inside its nodes included."`

	GatewayAddr string `name:"gateway-addr" yaml:"gateway_addr" placeholder:"HOST:PORT" help:"Listens for the gateway (the file's gateway.addr, else 127.0.0.1:8080)."`
	HTTPAddr    string `name:"http-addr" yaml:"http_addr" placeholder:"HOST:PORT" default:"127.0.0.1:8482" help:"Listens for /healthz, /readyz and /metrics, which ask nobody who they are (${default})."`

	RequestTimeout time.Duration `name:"request-timeout" yaml:"request_timeout" placeholder:"DURATION" default:"10s" help:"How long a request tries to get the nodes' decision; a wait comes on top (${default})."`
	DrainTimeout   time.Duration `name:"drain-timeout" yaml:"drain_timeout" placeholder:"DURATION" help:"How long SIGTERM waits for requests under way (the longest route's timeout, at least 10s)."`

	MetricsByTenant bool `name:"metrics-by-tenant" yaml:"metrics_by_tenant" help:"Add the tenant to the counters of /metrics; mind how many tenants there are."`

	LogLevel  string `name:"log-level" yaml:"log_level" placeholder:"LEVEL" default:"info" help:"debug, info, warn or error (${default})."`
	LogFormat string `name:"log-format" yaml:"log_format" placeholder:"FORMAT" default:"text" help:"text or json (${default})."`

	// Gateway is the file's gateway block. It has no flags.
	Gateway *gateway.Config `kong:"-" yaml:"gateway"`

	// Secret is what GatewaySecretFile holds; nil without a file.
	Secret []byte `kong:"-" yaml:"-"`
	// NodeList are the base URLs of Nodes.
	NodeList []string `kong:"-" yaml:"-"`
}

// LoadGateway is Load for a gateway on its own. The token's file is not looked at: see ReadToken.
func LoadGateway(parsed Gateway, isSet func(flag string) bool) (Gateway, error) {
	merged := parsed
	file, err := merge(parsed.Config, &merged, parsed, isSet)
	if err != nil {
		return Gateway{}, err
	}
	if merged.Gateway == nil {
		return Gateway{}, errors.New("gateway: is missing: expected a gateway block with routes in the file that config names")
	}
	if merged.Secret, err = readSecret("gateway_secret_file", merged.GatewaySecretFile); err != nil {
		return Gateway{}, err
	}
	if err := completeGateway(merged.Gateway, &merged.GatewayAddr, &merged.DrainTimeout); err != nil {
		return Gateway{}, file.locate(err)
	}
	if err := merged.check(); err != nil {
		return Gateway{}, err
	}
	return merged, nil
}

// check returns the first setting that is impossible, and settles NodeList.
func (g *Gateway) check() (err error) {
	if g.NodeList, err = client.ParseNodes(g.Nodes); err != nil {
		return fmt.Errorf("nodes: %w", err)
	}
	for name, addr := range map[string]string{"http_addr": g.HTTPAddr, "gateway_addr": g.GatewayAddr} {
		if err := checkAddr(addr, 0); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	if g.Token != "" && g.TokenFile != "" {
		return errors.New("token: is set beside token_file: expected one of them")
	}
	err = checkSpans(
		span{"request_timeout", g.RequestTimeout, MinRequestTimeout, MaxRequestTimeout},
		span{"drain_timeout", g.DrainTimeout, MinDrainTimeout, MaxDrainTimeout},
	)
	if err != nil {
		return err
	}
	return checkLog(g.LogLevel, g.LogFormat)
}

// ReadToken returns the credential for the nodes, out of the file where one is named; "" for none.
func (g *Gateway) ReadToken() (string, error) {
	if g.TokenFile == "" {
		return g.Token, nil
	}
	raw, err := os.ReadFile(g.TokenFile)
	if err != nil {
		return "", fmt.Errorf("token_file: %w", err)
	}
	token := strings.TrimSpace(string(raw))
	if token == "" {
		return "", fmt.Errorf("token_file: %s is empty: expected a token, as the first line of `onced token new` is one", g.TokenFile)
	}
	return token, nil
}

// TokenInClear tells whether the token shows itself to everybody on the way to a node.
func (g *Gateway) TokenInClear() bool {
	if g.Token == "" && g.TokenFile == "" {
		return false
	}
	for _, base := range g.NodeList {
		if u, err := url.Parse(base); err == nil && u.Scheme == "http" && !isLoopback(hostPort(u)) {
			return true
		}
	}
	return false
}

func hostPort(u *url.URL) string {
	if u.Port() == "" {
		return u.Host + ":80"
	}
	return u.Host
}
