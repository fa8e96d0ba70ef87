package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// snippet is a fenced block of a page with the mark that stands before it.
type snippet struct{ mark, text string }

// snippets returns the blocks that a `<!-- test… -->` line announces.
func snippets(t *testing.T, path string) (found []snippet) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(raw), "\n")
	for i := 0; i < len(lines); i++ {
		mark, ok := strings.CutPrefix(lines[i], "<!-- test")
		if !ok {
			continue
		}
		mark = strings.Trim(strings.TrimSuffix(mark, "-->"), ": ")
		if i++; i == len(lines) || !strings.HasPrefix(lines[i], "```") {
			t.Fatalf("line %d: no block follows the mark %q", i, mark)
		}
		start := i + 1
		for i++; i < len(lines) && lines[i] != "```"; i++ {
		}
		found = append(found, snippet{mark, strings.Join(lines[start:i], "\n") + "\n"})
	}
	return found
}

// TestReadme does what the README says.
func TestReadme(t *testing.T) { follow(t, "../../README.md", 4) }

// TestFiveMinutes does what the page about the gateway begins with.
func TestFiveMinutes(t *testing.T) { follow(t, "../../docs/gateway.md", 3) }

// follow does what a page says, at least so many examples, with a service on a port of its own. The ports are
// exchanged for free ones, so that nothing else on the machine matters.
func follow(t *testing.T, page string, least int) {
	t.Helper()
	for _, tool := range []string{"bash", "curl"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("ONCED_CI") == "1" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	session := newReadmeSession(t, freeAddr(t))
	ran := 0
	for _, s := range snippets(t, page) {
		text := session.ports.Replace(s.text)
		switch {
		case s.mark == "background":
			session.background(text)
			waitReady(t, session.api)
		case s.mark == "service":
			session.background(text)
			session.run("curl -s --retry 50 --retry-connrefused --retry-delay 1 -o /dev/null http://" + session.service + "/charges")
		case s.mark == "output":
			session.check(text)
		case s.mark == "":
			session.run(text)
			ran++
		case strings.HasPrefix(s.mark, "file "):
			session.file(strings.TrimPrefix(s.mark, "file "), text)
		default:
			t.Fatalf("unknown mark %q", s.mark)
		}
	}
	if ran < least {
		t.Errorf("only %d examples were run", ran)
	}
}

// readmeSession is a directory in which the examples run, as one reader would.
type readmeSession struct {
	t       *testing.T
	dir     string
	env     []string
	api     string
	service string // HOST:PORT
	ports   *strings.Replacer
	output  string // of the last block
}

func newReadmeSession(t *testing.T, service string) *readmeSession {
	api, cluster, door := freeAddr(t), freeAddr(t), freeAddr(t)
	s := &readmeSession{t: t, dir: t.TempDir(), api: "http://" + api, service: service}
	s.ports = strings.NewReplacer("127.0.0.1:8480", api, "127.0.0.1:8080", door, "127.0.0.1:3000", service)
	s.env = append(plainEnv(), "ONCED_HTTP_ADDR="+api, "ONCED_CLUSTER_ADDR="+cluster, "ONCED_NODES=http://"+api)
	if err := os.Symlink(binary, filepath.Join(s.dir, "onced")); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *readmeSession) command(text string) *exec.Cmd {
	cmd := exec.Command("bash", "-euc", text)
	cmd.Dir, cmd.Env = s.dir, s.env
	return cmd
}

// background starts a process that runs until the end. `exec` makes it the process that is ended.
func (s *readmeSession) background(text string) {
	s.t.Helper()
	cmd := s.command("exec " + text)
	log, err := os.Create(filepath.Join(s.t.TempDir(), "log"))
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		late := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
		defer late.Stop()
		cmd.Wait()
		if s.t.Failed() {
			raw, _ := os.ReadFile(log.Name())
			s.t.Logf("the node said:\n%s", raw)
		}
	})
}

func (s *readmeSession) run(text string) {
	s.t.Helper()
	out, err := s.command(text).Output()
	if s.output = string(out); err != nil {
		s.t.Fatalf("%v\n%s\n%s", err, text, out)
	}
}

// check wants each line of text in the output of the last block, in their order.
func (s *readmeSession) check(text string) {
	s.t.Helper()
	rest := s.output
	for line := range strings.SplitSeq(strings.TrimSpace(text), "\n") {
		_, after, ok := strings.Cut(rest, line)
		if !ok {
			s.t.Errorf("no %q in the rest of\n%s", line, s.output)
			return
		}
		rest = after
	}
}

func (s *readmeSession) file(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}
