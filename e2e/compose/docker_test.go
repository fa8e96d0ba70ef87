package compose

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// patience is how long anything that must come may take on a machine under load.
const patience = 60 * time.Second

// root is the project's, seen from this package.
const root = "../.."

// run runs a command in the project's directory and returns what it printed. Its failure is the test's.
func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := try(t.Context(), name, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// try is run with the error returned.
func try(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = root
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, out.Bytes(), complaints.Bytes())
	}
	return out.String(), nil
}

// container is one service's, by its name in docker-compose.yml.
type container struct {
	t       *testing.T
	service string
	gateway string // base URLs as published; "" = it has none
	api     string
}

// id asks for it each time: after down and up it is another one.
func (c *container) id() string {
	c.t.Helper()
	id, err := c.find(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	return id
}

func (c *container) find(ctx context.Context) (id string, err error) {
	out, err := try(ctx, "docker", "ps", "-aq",
		"--filter", "label=com.docker.compose.project="+project(), "--filter", "label=com.docker.compose.service="+c.service)
	if err != nil {
		return "", err
	}
	if ids := strings.Fields(out); len(ids) == 1 {
		return ids[0], nil
	}
	return "", fmt.Errorf("containers of %s: %q, want one", c.service, out)
}

// log is what its process has said, also once the test is over.
func (c *container) log() (string, error) {
	id, err := c.find(context.Background())
	if err != nil {
		return "", err
	}
	out, err := exec.Command("docker", "logs", id).CombinedOutput()
	return string(out), err
}

func (c *container) inspect(format string) string {
	c.t.Helper()
	return strings.TrimSpace(run(c.t, "docker", "inspect", "--format", format, c.id()))
}

// moment is a time that docker knows of it.
func (c *container) moment(format string) time.Time {
	c.t.Helper()
	at, err := time.Parse(time.RFC3339Nano, c.inspect(format))
	if err != nil {
		c.t.Fatal(err)
	}
	return at
}

func (c *container) address() string {
	c.t.Helper()
	return c.inspect("{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}")
}

// kill is a SIGKILL to the process in it.
func (c *container) kill() { c.t.Helper(); run(c.t, "docker", "kill", c.id()) }

func (c *container) start() { c.t.Helper(); run(c.t, "docker", "start", c.id()) }

// cut takes its network away, mend gives it back with the name by which the others know it.
func (c *container) cut() {
	c.t.Helper()
	run(c.t, "docker", "network", "disconnect", network(), c.id())
}

func (c *container) mend() {
	c.t.Helper()
	run(c.t, "docker", "network", "connect", "--alias", c.service, network(), c.id())
}

func project() string { return os.Getenv("COMPOSE_PROJECT_NAME") }

func network() string { return project() + "_default" }

// ready waits until the node says that it is, at its published port.
func (c *container) ready() {
	c.t.Helper()
	eventually(c.t, c.service+" is ready", func() error { return getJSON(c.t.Context(), c.api+"/readyz", &struct{}{}) })
}

// healthy waits until docker says so of the container.
func (c *container) healthy() {
	c.t.Helper()
	eventually(c.t, c.service+" is healthy", func() error {
		if health := c.inspect("{{.State.Health.Status}}"); health != "healthy" {
			return errors.New(health)
		}
		return nil
	})
}

var caller = &http.Client{Timeout: 3 * time.Second}

// getJSON reads the JSON of url into v. A status other than 200 is an error.
func getJSON(ctx context.Context, url string, v any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := caller.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: status %d", url, response.StatusCode)
	}
	return json.NewDecoder(response.Body).Decode(v)
}

// eventually polls until ok gives nil.
func eventually(t *testing.T, what string, ok func() error) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		err := ok()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: not within %s: %v", what, patience, err)
		}
	}
}
