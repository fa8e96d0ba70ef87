//go:build linux

package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"onced/internal/demo"
)

// ProjectEnv names what all containers, networks, volumes and the image of a run are called by. scripts/chaos sets it, and
// removes what has that name should this process not come to it.
const ProjectEnv = "ONCED_CHAOS_PROJECT"

// containers are docker-compose.yml's, by names and ports of their own.
type containers struct {
	project  string
	env      []string // of scripts/compose-up
	charges  string   // base URL of the provider
	override string   // file: what docker-compose.yml does not say
}

// services are the nodes' names in docker-compose.yml, by seat.
var services = [seats]string{"n1", "n2", "n3"}

// Containers returns why this machine has no containers; nil if it seems to have some.
func Containers() error {
	if out, err := exec.Command("docker", "info").CombinedOutput(); err != nil {
		return fmt.Errorf("asking for the docker engine: %w: %.300s", err, out)
	}
	if exec.Command("docker", "compose", "version").Run() == nil {
		return nil
	}
	if _, err := exec.LookPath("docker-compose"); err != nil {
		return errors.New("neither docker compose (v2) nor docker-compose (v1) is here")
	}
	return nil
}

// NewContained builds the shipped image, starts a cluster of its containers and waits until it is ready. The project's
// directory must be the current one. Call Cluster.End also after an error.
func NewContained(o Options) (*Cluster, error) {
	project := os.Getenv(ProjectEnv)
	if project == "" {
		project = fmt.Sprintf("onced-chaos-%d-x", os.Getpid()) // no other run's name begins with it
	}
	d := &containers{project: project, override: filepath.Join(o.Dir, "override.yml")}
	d.env = append(os.Environ(), "COMPOSE_PROJECT_NAME="+project, "ONCED_IMAGE="+project+":node",
		"ONCED_SECRET_FILE="+filepath.Join(o.Dir, "secrets", "cluster"), "COMPOSE_PROFILES=",
		"COMPOSE_FILE=docker-compose.yml"+string(os.PathListSeparator)+d.override)
	c := &Cluster{Options: o, docker: d, http: newCaller()}
	for seat, service := range services {
		api, gate := d.publish(strings.ToUpper(service)+"_API"), d.publish(strings.ToUpper(service)+"_GATEWAY")
		c.nodes[seat] = &Node{cluster: c, ID: service, Seat: seat, API: api, Gate: gate}
	}
	d.charges = d.publish("PROVIDER")
	return c, c.up()
}

// nextContained is Next; volumes and containers of before are gone, and so are the provider's charges.
func (c *Cluster) nextContained(o Options) (*Cluster, error) {
	c.logs()
	if err := c.docker.docker("", "scripts/compose-down", "--volumes"); err != nil {
		return c, err
	}
	next := &Cluster{Options: o, docker: c.docker, http: newCaller()}
	for seat, n := range c.nodes {
		next.nodes[seat] = &Node{cluster: next, ID: n.ID, Seat: seat, API: n.API, Gate: n.Gate}
	}
	return next, next.up("--no-build")
}

// up starts all containers by the script that users have, and takes them over.
func (c *Cluster) up(args ...string) error {
	var text strings.Builder
	text.WriteString("services:\n")
	for seat, service := range services {
		c.nodes[seat].Log = filepath.Join(c.Dir, service+".log")
		fmt.Fprintf(&text, "  %s: {environment: {ONCED_LOG_STORE: %s}}\n", service, c.LogStore)
	}
	if err := os.WriteFile(c.docker.override, []byte(text.String()), 0o600); err != nil {
		return err
	}
	if err := c.docker.docker("", "scripts/compose-up", args...); err != nil {
		return err
	}
	for _, n := range c.nodes {
		if err := n.Start(); err != nil {
			return err
		}
	}
	return nil
}

// Ledger is what the provider's container has charged, once nothing is under way.
func (c *Cluster) Ledger(ctx context.Context) (*demo.Ledger, error) {
	return demo.ReadLedger(ctx, c.docker.charges)
}

// publish hands a free loopback address to docker-compose.yml, and returns it as a base URL. It is of a port that
// nobody gets by chance, so that it stays free while its container is down.
func (d *containers) publish(variable string) string {
	for {
		ln, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 10000+rand.IntN(20000)))
		if err != nil {
			continue
		}
		defer ln.Close() // not before the end of this call
		d.env = append(d.env, variable+"="+ln.Addr().String())
		return "http://" + ln.Addr().String()
	}
}

// docker runs a command of ours or docker's. A Ctrl-C is not for it: what it is at is brought to an end. Where its output
// is to go to a file, that is named.
func (d *containers) docker(file, name string, args ...string) error {
	c := exec.Command(name, args...)
	c.Env = d.env
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	err := c.Run()
	if err == nil && file != "" {
		return os.WriteFile(file, out.Bytes(), 0o600)
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(out.String()))
	}
	return nil
}

// list is what docker lists, by lines.
func (d *containers) list(args ...string) []string {
	c := exec.Command("docker", args...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, _ := c.Output() // what cannot be listed cannot be removed either
	return strings.Fields(string(out))
}

func (d *containers) id(service string) (string, error) {
	ids := d.list("ps", "-aq", "--filter", "label=com.docker.compose.project="+d.project, "--filter", "label=com.docker.compose.service="+service)
	if len(ids) != 1 {
		return "", fmt.Errorf("containers of %s: %q, expected one", service, ids)
	}
	return ids[0], nil
}

// start starts a container, unless it runs, and waits for its end beside.
func (d *containers) start(service string) (runner, error) {
	id, err := d.id(service)
	if err != nil {
		return nil, err
	}
	if err := d.docker("", "docker", "start", id); err != nil {
		return nil, err
	}
	b := &container{d: d, id: id, done: make(chan struct{})}
	go func() {
		out := d.list("wait", id)
		b.err = fmt.Errorf("exit status %s", strings.Join(out, " "))
		close(b.done)
	}()
	return b, nil
}

func (d *containers) network() string { return d.project + "_default" }

func (d *containers) detach(service string) error {
	id, err := d.id(service)
	if err != nil {
		return err
	}
	return d.docker("", "docker", "network", "disconnect", d.network(), id)
}

// attach gives every node its network back, with the name by which the others know it.
func (d *containers) attach() error {
	for _, service := range services {
		id, err := d.id(service)
		if err != nil {
			return err
		}
		if len(d.list("inspect", "--format", "{{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}", id)) > 0 {
			continue
		}
		if err := d.docker("", "docker", "network", "connect", "--alias", service, d.network(), id); err != nil {
			return err
		}
	}
	return nil
}

// log writes what a container has said into a file.
func (d *containers) log(service, file string) {
	if id, err := d.id(service); err == nil {
		_ = d.docker(file, "docker", "logs", id) // a log that is not there says nothing
	}
}

// remove leaves nothing of this run. It asks docker, as compose may not get that far.
func (d *containers) remove() {
	label := "label=com.docker.compose.project=" + d.project
	for _, kind := range []struct{ list, remove []string }{
		{[]string{"ps", "-aq", "--filter", label}, []string{"rm", "-f", "-v"}},
		{[]string{"network", "ls", "-q", "--filter", "name=" + d.project}, []string{"network", "rm"}},
		{[]string{"volume", "ls", "-q", "--filter", label}, []string{"volume", "rm"}},
		{[]string{"images", "--format", "{{.Repository}}:{{.Tag}}", d.project}, []string{"rmi"}},
	} {
		if ids := d.list(kind.list...); len(ids) > 0 {
			_ = d.docker("", "docker", append(kind.remove, ids...)...) // scripts/chaos tries again
		}
	}
}

// container is one life of a container.
type container struct {
	d    *containers
	id   string
	done chan struct{}
	err  error // to be read after done
}

func (b *container) Done() <-chan struct{} { return b.done }

func (b *container) Err() error { <-b.done; return b.err }

// Signal pauses at SIGSTOP and goes on at SIGCONT. The error of one that is not in a state for it is a signal's to a
// process that has ended.
func (b *container) Signal(s syscall.Signal) error {
	verb, ok := map[syscall.Signal]string{syscall.SIGSTOP: "pause", syscall.SIGCONT: "unpause"}[s]
	if !ok {
		return fmt.Errorf("signal %s: expected SIGSTOP or SIGCONT", s)
	}
	return b.d.docker("", "docker", verb, b.id)
}

func (b *container) Kill() {
	_ = b.d.docker("", "docker", "kill", b.id) // an error means that it has ended already
	_ = b.Signal(syscall.SIGCONT)              // a frozen one may not die before
	<-b.done
}

func (b *container) Stop(within time.Duration) error {
	err := b.d.docker("", "docker", "stop", "--time", fmt.Sprint(int(within.Seconds())), b.id)
	if err != nil {
		return err
	}
	if end := b.Err().Error(); strings.HasSuffix(end, " 137") {
		return fmt.Errorf("container %s did not end within %s of SIGTERM and was killed", b.id, within)
	}
	return nil
}
