//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pages reads every record of a node's table by its list, without the responses: all that a backup has to bring back.
func (n *node) pages() map[string]string {
	n.t.Helper()
	all := map[string]string{}
	for cursor := ""; ; {
		a := n.get("/v1/keys?limit=1000&cursor=" + cursor)
		var page struct {
			Records []json.RawMessage `json:"records"`
			Next    string            `json:"next_cursor"`
		}
		if err := a.decode(&page); err != nil || a.status != 200 {
			n.t.Fatalf("listing: %s: %v", a, err)
		}
		for _, raw := range page.Records {
			var r struct{ Scope, Key string }
			if err := json.Unmarshal(raw, &r); err != nil {
				n.t.Fatal(err)
			}
			all[r.Scope+"\x00"+r.Key] = string(raw)
		}
		if cursor = page.Next; cursor == "" {
			return all
		}
	}
}

// largest is the largest token of records.
func largest(records []kept) (token uint64) {
	for _, k := range records {
		token = max(token, k.token)
	}
	return token
}

// TestBackupAndRestore backs a cluster up under load, and restores it into a new one, which two more nodes join: every record that
// was acknowledged before is there, on all of them, and every token is larger than any before.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	c := begin(t, nil)
	p := c.persist("early", 16)
	time.Sleep(time.Second)
	p.stop(t)
	early := p.records
	held := c.insist(0, func(n *node) answer { return n.reserve("held", object{"owner": "h", "lease": "24h"}) }).record()
	lapsing := c.insist(0, func(n *node) answer { return n.reserve("lapsing", object{"owner": "h", "lease": "2s"}) })
	if lapsing.status != 201 {
		t.Fatal(lapsing)
	}
	p = c.persist("late", 16)
	time.Sleep(300 * time.Millisecond)
	p.mu.Lock()
	early = append(early, p.records...) // the load goes on, but these are acknowledged
	p.mu.Unlock()
	file := filepath.Join(c.dir, "backup")
	s := command(t, nil, "backup", "--nodes", urls(c.nodes...), "--output", "json", file).expect(t, 0)
	time.Sleep(300 * time.Millisecond)
	p.stop(t)
	var told struct {
		File    string `json:"file"`
		Bytes   int64  `json:"bytes"`
		Cluster string `json:"cluster_id"`
	}
	info, err := os.Stat(file)
	if err := errors.Join(err, json.Unmarshal([]byte(s.stdout), &told)); err != nil || info.Size() != told.Bytes || info.Mode().Perm() != 0o600 {
		t.Fatalf("%s: %v, %v", s.stdout, info, err)
	}
	if len(c.nodes[0].logged(0, "verb=backup")) != 1 {
		t.Error("the node has no audit line of it")
	}
	command(t, nil, "backup", "--nodes", urls(c.nodes...), file).expect(t, 2, "is there already")
	before := max(largest(early), largest(p.records), held.Token)

	r := layOut(t, 3, func(i int, n *node) { n.id = fmt.Sprintf("r%d", i+1) })
	command(t, nil, "restore", "--data-dir", r.nodes[0].data, "--node-id", "r1", file).expect(t, 0, "first of the new cluster", told.Cluster)
	command(t, nil, "restore", "--data-dir", r.nodes[0].data, "--node-id", "r1", file).expect(t, 2, "not empty")
	r.nodes[0].start("")
	r.ready(r.nodes[0])
	for _, n := range r.nodes[1:] {
		n.settings = append(n.settings, "join: "+r.nodes[0].peer)
		n.start("")
	}
	r.ready(r.nodes...)
	r.votersAre(r.nodes[0], "r1,r2,r3")
	r.equalTables()
	r.verifyAll(early)
	for _, n := range r.nodes[1:] {
		if a, b := n.pages(), r.nodes[0].pages(); len(a) != len(b) || len(a) < len(early)+2 {
			t.Errorf("%s has %d records, r1 %d, of %d at least", n.id, len(a), len(b), len(early)+2)
		}
	}
	old := c.nodes[0].pages()
	for name, record := range r.nodes[0].pages() {
		if was := old[name]; was != record && !strings.Contains(name, "late-") && !strings.Contains(name, "lapsing") && !strings.Contains(name, "settled") {
			t.Errorf("%q was %s and is %s", name, was, record)
		}
	}
	var cluster struct {
		ID string `json:"cluster_id"`
	}
	if err := r.nodes[2].get("/v1/cluster").decode(&cluster); err != nil || cluster.ID == told.Cluster {
		t.Errorf("the new cluster's id is %s: %v", cluster.ID, err)
	}
	a := r.nodes[1].reserve("new", nil)
	if token := a.record().Token; token <= before+1<<31 {
		t.Errorf("the largest token before was %d: %s", before, a)
	}
	if a := r.nodes[2].complete("held", held.Token, object{"status": 200}); a.status != 200 {
		t.Errorf("the holder of a reservation that was open: %s", a)
	}
	eventually(t, "the open reservation lapses to unknown", func() error {
		if a := r.nodes[2].look("lapsing"); a.record().State != "unknown" {
			return errors.New(a.String())
		}
		return nil
	})
	// The old cluster goes on, and neither hears of the other.
	if a := c.nodes[0].reserve("old", nil); a.status != 201 || a.record().Token > before+1<<20 {
		t.Errorf("the old cluster: %s", a)
	}
}

// TestInterruptedBackup: a backup that ends in the middle, or is damaged on the way, leaves no file of its name. The next one is whole.
func TestInterruptedBackup(t *testing.T) {
	t.Parallel()
	c := layOut(t, 1, nil)
	n := c.nodes[0]
	c.start(n)
	c.ready(n)
	for i := range 200 {
		key := fmt.Sprintf("k%d", i)
		a := n.reserve(key, nil)
		if a = n.complete(key, a.record().Token, kind(2, i).object()); a.status != 200 {
			t.Fatal(a)
		}
	}
	whole := n.get("/v1/backup")
	if whole.status != 200 || whole.header.Get("Content-Length") != strconv.Itoa(len(whole.body)) || len(whole.body) < 1000 {
		t.Fatalf("%d bytes, %v", len(whole.body), whole.header)
	}
	half := whole.body[:len(whole.body)/2]
	flipped := bytes.Clone(whole.body)
	flipped[len(flipped)/2] ^= 1
	for name, serve := range map[string]http.HandlerFunc{
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(len(whole.body)))
			_, _ = w.Write(half)
			panic(http.ErrAbortHandler)
		},
		"short":   func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(half) },
		"changed": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(flipped) },
		"no backup at all": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("<html>a proxy's page</html>", 10))
		},
		"refused": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(403)
			_, _ = io.WriteString(w, `{"code":"forbidden","detail":"not you"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "backup")
			bad := httptest.NewServer(serve)
			defer bad.Close()
			command(t, nil, "backup", "--nodes", bad.URL, file).expect(t, 1)
			if names, _ := os.ReadDir(dir); len(names) > 0 {
				t.Errorf("it left %v", names)
			}
			if name == "refused" {
				return
			}
			command(t, nil, "backup", "--nodes", bad.URL+","+urls(n), file).expect(t, 0, "whole", urls(n))
		})
	}
	t.Run("killed", func(t *testing.T) {
		dir := t.TempDir()
		file := filepath.Join(dir, "backup")
		sent := make(chan struct{})
		slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write(half)
			w.(http.Flusher).Flush()
			close(sent)
			<-r.Context().Done()
		}))
		defer slow.Close()
		cmd := exec.Command(binary, "backup", "--nodes", slow.URL, file)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		<-sent
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("there is a file of its name: %v", err)
		}
		command(t, nil, "backup", "--nodes", urls(n), file).expect(t, 0)
		if names, _ := os.ReadDir(dir); len(names) != 1 {
			t.Errorf("there are %v", names)
		}
		if raw, err := os.ReadFile(file); err != nil || len(raw) < len(half) {
			t.Errorf("%d bytes: %v", len(raw), err)
		}
	})
	t.Run("slow caller", func(t *testing.T) {
		conn, err := net.Dial("tcp", n.api)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprintf(conn, "GET /v1/backup HTTP/1.1\r\nHost: x\r\n\r\n")
		if a := n.reserve("meanwhile", nil); a.status != 201 {
			t.Errorf("while a backup is taken slowly: %s", a)
		}
	})
}

// TestInterruptedRestore kills a restore in the middle: the directory is refused by serve and by restore, with a line that says what to do.
func TestInterruptedRestore(t *testing.T) {
	t.Parallel()
	c := layOut(t, 1, nil)
	n := c.nodes[0]
	c.start(n)
	c.ready(n)
	if a := n.reserve("k", nil); a.status != 201 {
		t.Fatal(a)
	}
	whole := n.get("/v1/backup").body
	n.stop()
	pipe := filepath.Join(c.dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(c.dir, "restored")
	cmd := exec.Command(binary, "restore", "--data-dir", data, "--node-id", "r1", pipe)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(pipe, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(whole[:len(whole)*2/3]); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it unpacks", func() error {
		if _, err := os.Stat(filepath.Join(data, "table-2.tmp")); err != nil {
			return err
		}
		return nil
	})
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	w.Close()
	r := newNode(t, c.dir, "r1")
	t.Cleanup(r.kill)
	r.data = data
	r.start("")
	if code := r.exit(); code != 2 {
		t.Errorf("serve ends with exit code %d", code)
	}
	r.oneLine(0, "interrupted", "onced restore again", data)
	file := filepath.Join(c.dir, "backup")
	if err := os.WriteFile(file, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	restore := func() said { return command(t, nil, "restore", "--data-dir", data, "--node-id", "r1", file) }
	restore().expect(t, 2, "interrupted", "empty it")
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	restore().expect(t, 0)
	r.start("")
	c.nodes = append(c.nodes, r)
	c.ready(r)
	if a := r.look("k"); a.record().State != "in_progress" {
		t.Errorf("the record is %s", a)
	}
	command(t, nil, "restore", "--data-dir", filepath.Join(c.dir, "x"), "--node-id", "r 1", file).expect(t, 2, "node id")
	command(t, nil, "restore", "--data-dir", filepath.Join(c.dir, "x"), "--node-id", "r1", file+"-none").expect(t, 2, "no such file")
	if err := os.WriteFile(file, whole[:len(whole)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	command(t, nil, "restore", "--data-dir", filepath.Join(c.dir, "x"), "--node-id", "r1", file).expect(t, 1, file+" is no whole backup", "cut short")
	if _, err := os.Stat(filepath.Join(c.dir, "x")); !errors.Is(err, os.ErrNotExist) {
		t.Error("it left a directory")
	}
}
