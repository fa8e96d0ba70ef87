//go:build linux

package e2e

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// refused starts a node that must not start: exit code 2 and one line, which holds every one of
// texts. What the directory held before, it holds after.
func (n *node) refused(peers string, texts ...string) {
	n.t.Helper()
	from, before := n.size(), tree(n.t, n.data)
	n.start(peers)
	if code := n.exit(); code != 2 {
		n.t.Errorf("exit code %d, expected 2", code)
	}
	n.oneLine(from, texts...)
	if after := tree(n.t, n.data); !maps.Equal(before, after) {
		n.t.Errorf("the directory held %v, and holds %v", before, after)
	}
}

// oneLine checks that the log since byte from ends in one line of the command's own that holds texts.
func (n *node) oneLine(from int, texts ...string) {
	n.t.Helper()
	lines := n.logged(from, "")
	var own []string
	for _, line := range lines {
		if strings.HasPrefix(line, "onced: ") {
			own = append(own, line)
		}
	}
	if len(own) != 1 {
		n.t.Errorf("expected one line that says why it ends:\n%s", strings.Join(lines, "\n"))
		return
	}
	n.t.Log(own[0])
	for _, text := range texts {
		if !strings.Contains(own[0], text) {
			n.t.Errorf("the line does not say %q: %s", text, own[0])
		}
	}
	for _, line := range lines {
		if strings.Contains(line, "level=ERROR") || strings.Contains(line, "panic") || strings.Contains(line, "goroutine") {
			n.t.Errorf("there is more than the one line: %s", line)
		}
	}
}

// tree is the content of a directory, but for the file that is only there to be locked.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.Name() == "LOCK" {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if d.IsDir() {
			files[name] = "folder"
			return nil
		}
		raw, err := os.ReadFile(path)
		files[name] = fmt.Sprintf("%x", sha256.Sum256(raw))
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return files
}

// TestRefusedSettings starts nodes whose settings cannot be: nothing is made.
func TestRefusedSettings(t *testing.T) {
	t.Parallel()
	busy := holdListener(t)
	for name, c := range map[string]struct {
		settings string
		want     []string
	}{
		"unknown":            {"request_timeot: 1s", []string{"request_timeot"}},
		"impossible":         {"request_timeout: 1h", []string{"request_timeout", "1h", "expected"}},
		"API's port taken":   {"http_addr: " + busy, []string{"http_addr", busy, "in use"}},
		"gateway's taken":    {"gateway_addr: " + busy + "\ngateway:\n  upstream: http://127.0.0.1:1\n  tenant: single\n  routes:\n    - match: POST /charge", []string{"gateway_addr", busy, "in use"}},
		"cluster's taken":    {"cluster_addr: " + busy, []string{"cluster_addr", busy, "in use"}},
		"secret not there":   {"cluster_secret_file: /nowhere/secret", []string{"cluster_secret_file", "/nowhere/secret"}},
		"data under a file":  {"data_dir: /dev/null/data", []string{"/dev/null"}},
		"data without right": {"data_dir: /proc/onced", []string{"/proc/onced"}},
	} {
		t.Run(name, func(t *testing.T) {
			n := layOut(t, 1, nil).nodes[0]
			n.settings = strings.Split(c.settings, "\n")
			field, _, _ := strings.Cut(c.settings, ":")
			n.replace = field
			n.refused("", c.want...)
		})
	}
}

// TestSecondProcess starts a second process on the directory of a running one, which goes on.
func TestSecondProcess(t *testing.T) {
	t.Parallel()
	c := layOut(t, 1, nil)
	first := c.nodes[0]
	c.start(first)
	c.ready(first)
	second := newNode(t, c.dir, "second")
	t.Cleanup(second.kill)
	second.data = first.data
	second.start("")
	if code := second.exit(); code != 2 {
		t.Errorf("exit code %d, expected 2", code)
	}
	second.oneLine(0, "in use by another process", first.data)
	if a := first.reserve("k", nil); a.status != 201 {
		t.Errorf("the first process is told %s", a)
	}
}

// TestRefusedMember starts nodes on directories that are not theirs to vote with.
func TestRefusedMember(t *testing.T) {
	t.Parallel()
	c := begin(t, nil)
	// A cluster that was here before leaves a directory of another cluster with the same members.
	for _, n := range c.nodes {
		n.stop()
		n.data += "-new"
	}
	c.start(c.nodes...)
	c.ready(c.nodes...)
	if a := c.nodes[0].reserve("k", object{"lease": "1h"}); a.status != 201 {
		t.Fatal(a)
	}
	n := c.nodes[2]
	n.stop()
	own := n.data
	for _, wrong := range []struct {
		name, data string
		id         string
		want       []string
	}{
		{"wiped", own + "-wiped", "n3", []string{"n3", "was wiped", "--join"}},
		{"another cluster's", strings.TrimSuffix(own, "-new"), "n3", []string{"another cluster's", "n1"}},
		{"another node's", copyDir(t, own), "n9", []string{"n3", "n9"}},
	} {
		t.Run(wrong.name, func(t *testing.T) {
			n.id, n.data = wrong.id, wrong.data
			defer func() { n.id, n.data = "n3", own }()
			from, before := n.size(), tree(t, n.data)
			n.start(strings.ReplaceAll(c.peers(), "n3=", wrong.id+"="))
			if code := n.exit(); code != 2 {
				t.Errorf("exit code %d, expected 2", code)
			}
			n.oneLine(from, wrong.want...)
			if after := tree(t, n.data); before["identity.json"] != after["identity.json"] {
				t.Error("the directory is somebody else's now")
			}
		})
	}
	c.start(n)
	c.ready(c.nodes...)
	c.equalTables()
	if a := n.look("k"); a.record().State != "in_progress" {
		t.Errorf("the record is now %s", a)
	}
}

// copyDir returns a copy of a directory, beside it.
func copyDir(t *testing.T, from string) string {
	t.Helper()
	to := from + "-copy"
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// TestWrongSecret starts a member with another secret: it says so, never joins, and disturbs nobody.
func TestWrongSecret(t *testing.T) {
	t.Parallel()
	dir := scratch(t)
	secret := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return "cluster_secret_file: " + path
	}
	right := secret("right", "the secret of this cluster, long enough")
	c := begin(t, func(_ int, n *node) { n.settings = append(n.settings, right) })
	n := c.others(c.leader())[0]
	n.stop()
	from := n.size()
	n.settings = []string{secret("wrong", "the secret of another cluster, as long")}
	c.start(n)
	line := n.waitLog(from, "secret")
	t.Log(line)
	for i := range 20 {
		if a := c.others(n)[i%2].reserve(fmt.Sprintf("k-%d", i), nil); a.status != 201 {
			t.Errorf("the others are disturbed: %s", a)
		}
	}
	if a := n.get("/readyz"); a.status != 503 {
		t.Errorf("it says that it is ready: %s", a)
	}
	if a := n.lookStale("k-1"); a.code() != "key_not_found" {
		t.Errorf("it got what the others wrote: %s", a)
	}
	n.stop()
	n.settings = []string{right}
	c.start(n)
	c.ready(n)
	c.equalTables()
}
