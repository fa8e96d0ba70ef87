package system

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"onced/internal/process"
)

const (
	readyWithin = 60 * time.Second
	stopWithin  = 20 * time.Second
	pollEvery   = 20 * time.Millisecond
)

// member is one process, which can be started again with the same arguments.
type member struct {
	name string
	args []string // program first
	log  string
	end  syscall.Signal // sent before SIGTERM where that alone would wait for clients, and at the very end, where a kill would leave shared memory behind; 0 = none

	mu      sync.Mutex
	running *process.Process
}

func newMember(dir, name string, args ...string) *member {
	return &member{name: name, args: args, log: filepath.Join(dir, name+".log")}
}

func (m *member) start() error {
	p, err := process.Start(process.Options{Binary: m.args[0], Args: m.args[1:], Log: m.log})
	if err != nil {
		return fmt.Errorf("starting %s: %w", m.name, err)
	}
	m.mu.Lock()
	m.running = p
	m.mu.Unlock()
	return nil
}

func (m *member) process() *process.Process {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.running
}

func (m *member) pid() int {
	if p := m.process(); p != nil {
		return p.Pid()
	}
	return 0
}

func (m *member) stop() error {
	p := m.process()
	if p == nil {
		return nil
	}
	if m.end != 0 {
		_ = p.Signal(m.end) // an error means that it has ended
	}
	return p.Stop(stopWithin)
}

// stopAll ends members at the same time.
func stopAll(members ...*member) error {
	errs := make(chan error, len(members))
	for _, m := range members {
		go func() { errs <- m.stop() }()
	}
	var first error
	for range members {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

func pids(members ...*member) (all []int) {
	for _, m := range members {
		all = append(all, m.pid())
	}
	return all
}

// await polls ready until it gives nil; it ends early when one of members does.
func await(ctx context.Context, ready func() error, members ...*member) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for {
		err := ready()
		if err == nil {
			return nil
		}
		for _, m := range members {
			select {
			case <-m.process().Done():
				return fmt.Errorf("%s ended: %w\n%s", m.name, m.process().Err(), process.Tail(m.log, 8))
			default:
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("it is not ready: %w (logs: %s)", err, filepath.Dir(members[0].log))
		case <-time.After(pollEvery):
		}
	}
}

var asking = &http.Client{Timeout: 5 * time.Second}

// get reads url's JSON into v, if v is not nil. A status other than 200 is an error.
func get(ctx context.Context, url string, v any) error {
	return ask(ctx, http.MethodGet, url, http.StatusOK, v)
}

// remove sends a DELETE. A status other than 204 is an error.
func remove(ctx context.Context, url string) error {
	return ask(ctx, http.MethodDelete, url, http.StatusNoContent, nil)
}

// ask sends a request without a body, and reads the answer's JSON into v, if v is not nil. A status other than want is an error.
func ask(ctx context.Context, method, url string, want int, v any) error {
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return err
	}
	response, err := asking.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != want {
		return fmt.Errorf("%s %s: status %d", method, url, response.StatusCode)
	}
	if v == nil {
		return nil
	}
	return json.NewDecoder(response.Body).Decode(v)
}

// discard ends a process whose data nobody needs any more: at once, unless what it would leave behind is more than data.
func (m *member) discard() error {
	p := m.process()
	if p == nil {
		return nil
	}
	if m.end != 0 {
		return m.stop()
	}
	p.Kill()
	return nil
}
