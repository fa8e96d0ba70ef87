// Package process runs nodes as processes of their own, for whoever drives some from
// outside: the demo and the tests.
//
// Invariants:
//
//   - A child gets none of the ONCED_ variables of this process, only those that it is given.
//   - A child ends with this process, also when this one is killed (on Linux).
//   - A child is waited for as soon as it has ended, whoever ended it.
package process

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// Options say what to start. Binary and Log are required.
type Options struct {
	Binary string
	Args   []string
	Env    []string // NAME=value, beside those of this process
	Log    string   // file that gets what the child says, at its end
}

// Process is a child that was started.
type Process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed once it has ended
	err  error         // how it ended; to be read after done
}

// Start starts a child.
func Start(o Options) (*Process, error) {
	out, err := os.OpenFile(o.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening its log: %w", err)
	}
	defer out.Close() // the child has its own
	cmd := exec.Command(o.Binary, o.Args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = append(withoutOnced(os.Environ()), o.Env...)
	cmd.SysProcAttr = childAttributes()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := &Process{cmd: cmd, done: make(chan struct{})}
	go func() {
		p.err = cmd.Wait()
		if p.err == nil {
			p.err = fmt.Errorf("exit status 0")
		}
		close(p.done)
	}()
	return p, nil
}

func withoutOnced(env []string) []string {
	var kept []string
	for _, entry := range env {
		if !strings.HasPrefix(entry, "ONCED_") {
			kept = append(kept, entry)
		}
	}
	return kept
}

// Done is closed once the child has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err says how the child ended, also after exit code 0. It waits for the end.
func (p *Process) Err() error {
	<-p.done
	return p.err
}

// ExitCode waits for the end and returns the exit code, -1 for a death by signal.
func (p *Process) ExitCode() int {
	<-p.done
	return p.cmd.ProcessState.ExitCode()
}

// Pid is the child's process id.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Signal sends s. An error means that the child has ended.
func (p *Process) Signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// Kill ends the child as a crash would, and waits until it is gone.
func (p *Process) Kill() {
	p.cmd.Process.Kill() // an error means that it has ended already
	<-p.done
}

// Stop asks the child to end by SIGTERM, waits, and kills it when that takes longer than within.
// The error says so.
func (p *Process) Stop(within time.Duration) error {
	select {
	case <-p.done:
		return nil
	default:
	}
	if err := p.Signal(syscall.SIGTERM); err != nil {
		p.Kill()
		return nil
	}
	late := time.NewTimer(within)
	defer late.Stop()
	select {
	case <-p.done:
		return nil
	case <-late.C:
		p.Kill()
		return fmt.Errorf("process %d did not end within %s of SIGTERM and was killed", p.cmd.Process.Pid, within)
	}
}

// Tail returns the last lines of the file at path, to be shown when a child has failed.
func Tail(path string, lines int) string {
	raw, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	all := strings.Split(strings.TrimSpace(string(raw)), "\n")
	return strings.Join(all[max(0, len(all)-lines):], "\n")
}
