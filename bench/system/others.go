package system

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
)

func startMemory(ctx context.Context, o Options) (System, error) {
	addrs, err := freeAddrs(1)
	if err != nil {
		return nil, err
	}
	return startFronted(ctx, &fronted{
		front: newMember(o.Dir, "front", o.Self, "front", "memory", addrs[0], o.Charge.String(), ""), url: "http://" + addrs[0],
		start: func() error { return nil },
	})
}

// startRedis starts a primary with synced appends and a replica.
func startRedis(ctx context.Context, o Options) (System, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, Unavailable{"there is no redis-server in the PATH (Debian: apt-get install redis-server)"}
	}
	addrs, err := freeAddrs(3)
	if err != nil {
		return nil, err
	}
	s := &fronted{front: newMember(o.Dir, "front", o.Self, "front", "redis", addrs[0], o.Charge.String(), addrs[1]), url: "http://" + addrs[0]}
	s.table = "appendonlydir" // it is both
	for i, name := range []string{"primary", "replica"} {
		dir := filepath.Join(o.Dir, name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, err
		}
		_, port, _ := net.SplitHostPort(addrs[1+i])
		args := []string{binary, "--port", port, "--bind", "127.0.0.1", "--dir", dir, "--appendonly", "yes", "--appendfsync", "always", "--save", "", "--repl-diskless-sync-delay", "0", "--shutdown-timeout", "2"}
		if i > 0 {
			host, port, _ := net.SplitHostPort(addrs[1])
			args = append(args, "--replicaof", host, port)
		}
		s.members, s.data = append(s.members, newMember(o.Dir, name, args...)), append(s.data, dir)
	}
	s.start = func() error { return startEach(s.members) }
	return startFronted(ctx, s)
}

func startEtcd(ctx context.Context, o Options) (System, error) {
	addrs, err := freeAddrs(7)
	if err != nil {
		return nil, err
	}
	var clients, peers []string
	for i := range 3 {
		clients = append(clients, fmt.Sprintf("m%d=%s", i+1, addrs[1+i]))
		peers = append(peers, fmt.Sprintf("m%d=%s", i+1, addrs[4+i]))
	}
	s := &fronted{front: newMember(o.Dir, "front", o.Etcd, "front", addrs[0], o.Charge.String(), strings.Join(clients, ",")), url: "http://" + addrs[0], equal: true, table: "member/snap"}
	for i := range 3 {
		name := fmt.Sprintf("m%d", i+1)
		dir := filepath.Join(o.Dir, name)
		s.members = append(s.members, newMember(o.Dir, name, o.Etcd, "node", name, addrs[1+i], addrs[4+i], strings.Join(peers, ","), dir))
		s.data = append(s.data, dir)
	}
	s.start = func() error { return startEach(s.members) }
	return startFronted(ctx, s)
}

// startPostgres makes a new database cluster. The server refuses to run as root: then it runs as the user postgres.
func startPostgres(ctx context.Context, o Options) (System, error) {
	programs, err := postgresPrograms()
	if err != nil {
		return nil, err
	}
	as, err := asPostgres(o.Dir)
	if err != nil {
		return nil, err
	}
	addrs, err := freeAddrs(2)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(o.Dir, "data")
	make := append(as, filepath.Join(programs, "initdb"), "-D", dir, "-U", "bench", "-A", "trust", "-E", "UTF8", "--locale=C")
	initdb := exec.CommandContext(ctx, make[0], make[1:]...)
	initdb.Dir = o.Dir
	if said, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("making the database: %w\n%s", err, said)
	}
	_, port, _ := net.SplitHostPort(addrs[1])
	run := append(as[:len(as):len(as)], filepath.Join(programs, "postgres"), "-D", dir, "-p", port, "-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
		"-c", "synchronous_commit=on", "-c", "fsync=on", "-c", "max_connections=100")
	s := &fronted{
		front:   newMember(o.Dir, "front", o.Self, "front", "postgres", addrs[0], o.Charge.String(), fmt.Sprintf("postgres://bench@%s/postgres?sslmode=disable", addrs[1])),
		url:     "http://" + addrs[0],
		members: []*member{newMember(o.Dir, "postgres", run...)}, data: []string{dir}, table: "base",
	}
	s.members[0].end = syscall.SIGINT // a fast shutdown: it does not wait for the front to hang up
	s.start = func() error { return startEach(s.members) }
	return startFronted(ctx, s)
}

// postgresPrograms is the directory of the newest version's programs, which Debian keeps out of the PATH.
func postgresPrograms() (string, error) {
	if initdb, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(initdb), nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // an error is of the pattern
	if len(found) == 0 {
		return "", Unavailable{"there is no initdb in the PATH or in /usr/lib/postgresql (Debian: apt-get install postgresql)"}
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(strings.Split(path, "/")[4])
		return n
	}
	sort.Slice(found, func(i, j int) bool { return version(found[i]) > version(found[j]) })
	return filepath.Dir(found[0]), nil
}

// asPostgres is what comes before the server's command line, and makes dir its user's.
func asPostgres(dir string) ([]string, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, Unavailable{"PostgreSQL does not run as root, and there is no user postgres"}
	}
	setpriv, err := exec.LookPath("setpriv")
	if err != nil {
		return nil, Unavailable{"PostgreSQL does not run as root, and there is no setpriv"}
	}
	uid, err1 := strconv.Atoi(u.Uid)
	gid, err2 := strconv.Atoi(u.Gid)
	if err1 != nil || err2 != nil {
		return nil, fmt.Errorf("the user postgres has the id %s:%s", u.Uid, u.Gid)
	}
	return []string{setpriv, "--reuid", u.Uid, "--regid", u.Gid, "--clear-groups", "--pdeathsig", "KILL", "--"}, os.Chown(dir, uid, gid)
}

// PostgresVersion is what the server that would be started says of itself, "" where there is none.
func PostgresVersion() string {
	programs, err := postgresPrograms()
	if err != nil {
		return ""
	}
	out, err := exec.Command(filepath.Join(programs, "postgres"), "--version").Output()
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(out))
	return fields[min(2, len(fields)-1)]
}
