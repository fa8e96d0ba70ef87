package system

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"onced"
	"onced/internal/demo"
)

// ErrNoLeader says that nobody would take over.
var ErrNoLeader = errors.New("no member takes over by itself")

// nodes is three onced nodes, each with its gateway, and the provider behind these.
type nodes struct {
	members     []*member
	apis, doors []string
	data        []string
	provider    *demo.Provider
	killed      *member
	options     Options
	added       int // members beyond the first three
}

func startOnced(ctx context.Context, o Options) (System, error) {
	addrs, err := freeAddrs(9)
	if err != nil {
		return nil, err
	}
	provider, err := demo.NewProvider("127.0.0.1:0", o.Charge)
	if err != nil {
		return nil, err
	}
	s := &nodes{provider: provider, options: o}
	var peers []string
	for i := range 3 {
		peers = append(peers, fmt.Sprintf("n%d=%s", i+1, addrs[6+i]))
	}
	for i := range 3 {
		if err := s.add(fmt.Sprintf("n%d", i+1), "peers: "+strings.Join(peers, ","), addrs[i], addrs[3+i], addrs[6+i]); err != nil {
			return nil, err
		}
	}
	if err := s.Restart(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.ready(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// add writes the settings of a node. others is their line about the other nodes.
func (s *nodes) add(id, others, api, door, cluster string) error {
	o := s.options
	dir, file := filepath.Join(o.Dir, id), filepath.Join(o.Dir, id+".yaml")
	settings := fmt.Sprintf(nodeSettings, id, dir, logStore(o.LogStore), api, cluster, others, door, s.provider.URL(), demo.AccountHeader)
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		return fmt.Errorf("writing the settings of %s: %w", id, err)
	}
	s.members = append(s.members, newMember(o.Dir, id, o.Onced, "serve", "--config", file))
	s.apis, s.doors, s.data = append(s.apis, "http://"+api), append(s.doors, "http://"+door), append(s.data, dir)
	return nil
}

// nodeSettings leaves everything that matters for speed at its default. The lease is short so that what a killed gateway held is told within the run.
const nodeSettings = `node_id: %s
data_dir: %q
%s
http_addr: %s
cluster_addr: %s
%s
no_auth: true
gateway:
  addr: %s
  upstream: %s
  tenant: header:%s
  routes:
    - match: POST /charge
      key: required
      lease: 3s
`

func (s *nodes) ready(ctx context.Context) error {
	return await(ctx, func() error {
		for _, api := range s.apis {
			if err := get(ctx, api+"/readyz", nil); err != nil {
				return err
			}
		}
		return nil
	}, s.members...)
}

func (s *nodes) Doors() []string   { return s.apis }
func (s *nodes) Charges() []string { return s.doors }
func (s *nodes) Servers() []int    { return pids(s.members...) }
func (s *nodes) Stores() []int     { return pids(s.members...) }
func (s *nodes) Dirs() []string    { return s.data }
func (s *nodes) Tables() []string  { return below(s.data, "table-*") }

func (s *nodes) KillLeader(ctx context.Context) error {
	for i, api := range s.apis {
		var status onced.ClusterStatus
		if get(ctx, api+"/v1/cluster", &status) != nil || status.Leader != fmt.Sprintf("n%d", i+1) {
			continue
		}
		s.killed = s.members[i]
		s.killed.process().Kill()
		return nil
	}
	return errors.New("no node says that it leads")
}

func (s *nodes) Revive(ctx context.Context) error {
	if s.killed == nil {
		return nil
	}
	if err := s.killed.start(); err != nil {
		return err
	}
	s.killed = nil
	return s.ready(ctx)
}

func (s *nodes) Restart(context.Context) error { return restart(s.members) }

// restart ends members and starts them.
func restart(members []*member) error {
	if err := stopAll(members...); err != nil {
		return err
	}
	for _, m := range members {
		if err := m.start(); err != nil {
			return err
		}
	}
	return nil
}

func (s *nodes) Counted(ctx context.Context) (charges, keys int, err error) {
	return counted(ctx, s.provider.URL())
}

func counted(ctx context.Context, url string) (charges, keys int, err error) {
	var c struct{ Charges, Keys int }
	err = get(ctx, url+"/charges", &c)
	return c.Charges, c.Keys, err
}

func (s *nodes) Close() error {
	s.provider.Close()
	return stopAll(s.members...)
}

// logStore is the line of the settings, none for the node's default.
func logStore(kind string) string {
	if kind == "" {
		return ""
	}
	return "log_store: " + kind
}
