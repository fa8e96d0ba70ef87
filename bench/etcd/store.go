package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"onced/bench/front"
)

// store keeps the front's keys in etcd.
//
// Invariants:
//
//   - A reserve is one transaction that creates the key if it is absent, a complete one that compares its revision; the revision is the token.
//   - No lease is attached: one for each key would cost etcd a third write.
type store struct {
	client *clientv3.Client
	names  map[string]string // by endpoint

	// prints holds the fingerprint of what this front reserved, by token, as the handler would that runs the operation.
	prints sync.Map
}

var _ front.Store = (*store)(nil)

func open(members []string) (*store, error) {
	s := &store{names: map[string]string{}}
	var endpoints []string
	for _, m := range members {
		name, addr, ok := strings.Cut(m, "=")
		if !ok {
			return nil, fmt.Errorf("%q: expected NAME=ADDR", m)
		}
		endpoints = append(endpoints, "http://"+addr)
		s.names["http://"+addr] = name
	}
	var err error
	s.client, err = clientv3.New(clientv3.Config{
		Endpoints: endpoints, DialTimeout: 2 * time.Second, Logger: zap.NewNop(),
		DialKeepAliveTime: time.Second, DialKeepAliveTimeout: time.Second,
	})
	return s, err
}

// Reserve implements front.Store.
func (s *store) Reserve(ctx context.Context, key, fingerprint string) (front.Reservation, error) {
	got, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, front.Reserved(0, fingerprint))).
		Else(clientv3.OpGet(key)).Commit()
	if err != nil {
		return front.Reservation{}, fmt.Errorf("reserving: %w", err)
	}
	if got.Succeeded {
		s.prints.Store(got.Header.Revision, fingerprint)
		return front.Reservation{Token: got.Header.Revision}, nil
	}
	found := got.Responses[0].GetResponseRange().Kvs
	if len(found) != 1 {
		return front.Reservation{}, errors.New("the record is gone")
	}
	return front.Found(found[0].Value, fingerprint)
}

// Complete implements front.Store.
func (s *store) Complete(ctx context.Context, key string, token int64, answer []byte) error {
	fingerprint, ok := s.prints.Load(token)
	if !ok {
		return front.ErrStaleToken
	}
	got, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(key), "=", token)).
		Then(clientv3.OpPut(key, front.Completed(token, fingerprint.(string), answer))).Commit()
	if err != nil {
		return fmt.Errorf("completing: %w", err)
	}
	s.prints.Delete(token)
	if !got.Succeeded {
		return front.ErrStaleToken
	}
	return nil
}

// maxOps is how many operations etcd takes in one transaction.
const maxOps = 128

// Fill implements front.Store.
func (s *store) Fill(ctx context.Context, keys []string, fingerprint string, answer []byte) error {
	for len(keys) > 0 {
		some := keys[:min(maxOps, len(keys))]
		keys = keys[len(some):]
		for _, value := range []string{front.Reserved(0, fingerprint), front.Completed(1, fingerprint, answer)} {
			ops := make([]clientv3.Op, len(some))
			for i, key := range some {
				ops[i] = clientv3.OpPut(key, value)
			}
			if _, err := s.client.Txn(ctx).Then(ops...).Commit(); err != nil {
				return fmt.Errorf("storing many: %w", err)
			}
		}
	}
	return nil
}

// Tidy implements front.Store: old revisions are removed, and each member gives the room back.
func (s *store) Tidy(ctx context.Context) error {
	at, err := s.client.Get(ctx, "\x00", clientv3.WithLimit(1))
	if err != nil {
		return fmt.Errorf("asking for the revision: %w", err)
	}
	if _, err := s.client.Compact(ctx, at.Header.Revision, clientv3.WithCompactPhysical()); err != nil {
		return fmt.Errorf("compacting: %w", err)
	}
	for endpoint := range s.names {
		if _, err := s.client.Defragment(ctx, endpoint); err != nil {
			return fmt.Errorf("defragmenting %s: %w", endpoint, err)
		}
	}
	return nil
}

// Leader implements front.Store.
func (s *store) Leader(ctx context.Context) (string, error) {
	var last error
	for endpoint, name := range s.names {
		limited, cancel := context.WithTimeout(ctx, time.Second)
		status, err := s.client.Status(limited, endpoint)
		cancel()
		switch {
		case err != nil:
			last = err
		case status.Leader == status.Header.MemberId:
			return name, nil
		}
	}
	return "", fmt.Errorf("nobody says that it leads (%v)", last)
}

// Ready implements front.Store.
func (s *store) Ready(ctx context.Context) error {
	_, err := s.client.Get(ctx, "ready")
	return err
}

// Close implements front.Store.
func (s *store) Close() error { return s.client.Close() }
