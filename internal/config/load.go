package config

import (
	"fmt"
	"os"
	"reflect"
	"strings"

	"onced/cluster/peer"
)

// EnvName returns the environment variable of a flag: ONCED_NODE_ID of node-id.
func EnvName(flag string) string {
	return "ONCED_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Load merges and checks. parsed holds what the command line and the environment
// said, and the defaults elsewhere; isSet tells of a flag's name whether one of the two
// said it. The file that parsed.Config names fills in the rest.
//
// Errors have one line and name the setting. Nothing else than the file, the
// secret's file and the host's name is looked at.
func Load(parsed Serve, isSet func(flag string) bool) (Serve, error) {
	merged := parsed
	file, err := merge(parsed.Config, &merged, parsed, isSet)
	if err != nil {
		return Serve{}, err
	}
	if err := complete(&merged); err != nil {
		return Serve{}, file.locate(err)
	}
	if err := merged.check(); err != nil {
		return Serve{}, err
	}
	return merged, nil
}

// merge reads the file over merged, a pointer to a copy of parsed, and puts back what the command line or the
// environment said. It returns the file's document, nil for "", which is no file.
func merge(file string, merged, parsed any, isSet func(string) bool) (*document, error) {
	if file == "" {
		return nil, nil
	}
	d, err := decodeFile(file, merged)
	if err != nil {
		return nil, err
	}
	keepSet(merged, parsed, isSet)
	return d, nil
}

// keepSet copies the settings that the command line or the environment said
// over those of the file.
func keepSet(merged, parsed any, isSet func(string) bool) {
	to, from := reflect.ValueOf(merged).Elem(), reflect.ValueOf(parsed)
	for i := range to.NumField() {
		if name := to.Type().Field(i).Tag.Get("name"); name != "" && isSet(name) {
			to.Field(i).Set(from.Field(i))
		}
	}
}

// complete fills in what depends on the machine and on other settings.
func complete(s *Serve) error {
	if s.NodeID == "" {
		name, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("node_id: asking for the host's name: %w; give --node-id", err)
		}
		s.NodeID = name
	}
	if s.ClusterAdvertise == "" {
		s.ClusterAdvertise = s.Peers.Addr(s.NodeID)
	}
	if s.ClusterAdvertise == "" {
		s.ClusterAdvertise = s.ClusterAddr
	}
	var err error
	if s.Secret, err = readSecret("cluster_secret_file", s.ClusterSecretFile); err != nil {
		return err
	}
	if s.GatewaySecret, err = readSecret("gateway_secret_file", s.GatewaySecretFile); err != nil {
		return err
	}
	if s.GatewaySecret == nil {
		s.GatewaySecret = s.Secret
	}
	return completeGateway(s.Gateway, &s.GatewayAddr, &s.DrainTimeout)
}

// readSecret reads the file that setting names; nil where it names none.
func readSecret(setting, path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", setting, err)
	}
	secret := strings.TrimSpace(string(raw))
	if len(secret) < peer.MinSecret {
		return nil, fmt.Errorf("%s: the secret has %d bytes; expected at least %d, as `openssl rand -hex 32` makes", setting, len(secret), peer.MinSecret)
	}
	return []byte(secret), nil
}
