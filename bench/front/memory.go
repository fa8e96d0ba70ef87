package front

import (
	"context"
	"sync"
)

// Memory is a Store in a map: what the front itself can do, the ceiling for every other. It forgets everything when its process ends.
type Memory struct {
	mu     sync.Mutex
	tokens int64
	keys   map[string]*entry
}

type entry struct {
	fingerprint string
	token       int64
	answer      []byte // nil = reserved
}

// NewMemory returns an empty one.
func NewMemory() *Memory { return &Memory{keys: map[string]*entry{}} }

// Reserve implements Store.
func (m *Memory) Reserve(_ context.Context, key, fingerprint string) (Reservation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.keys[key]
	switch {
	case e == nil:
		m.tokens++
		m.keys[key] = &entry{fingerprint: fingerprint, token: m.tokens}
		return Reservation{Token: m.tokens}, nil
	case e.fingerprint != fingerprint:
		return Reservation{}, ErrConflict
	case e.answer == nil:
		return Reservation{}, ErrInProgress
	}
	return Reservation{Answer: e.answer}, nil
}

// Complete implements Store.
func (m *Memory) Complete(_ context.Context, key string, token int64, answer []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.keys[key]
	if e == nil || e.token != token || e.answer != nil {
		return ErrStaleToken
	}
	e.answer = answer
	return nil
}

// Fill implements Store.
func (m *Memory) Fill(_ context.Context, keys []string, fingerprint string, answer []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, key := range keys {
		m.tokens++
		m.keys[key] = &entry{fingerprint: fingerprint, token: m.tokens, answer: append([]byte(nil), answer...)}
	}
	return nil
}

// Tidy implements Store: there is nothing to do.
func (m *Memory) Tidy(context.Context) error { return nil }

// Leader implements Store.
func (m *Memory) Leader(context.Context) (string, error) { return "", nil }

// Ready implements Store.
func (m *Memory) Ready(context.Context) error { return nil }

// Close implements Store.
func (m *Memory) Close() error { return nil }
