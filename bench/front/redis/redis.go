// Package redis keeps the front's keys in Redis, safely: the caller of this store waits for a synced append (the server's setting) and for one replica.
//
// Invariants:
//
//   - A reserve is one SET NX, a complete one script that compares the token. Nobody's reservation is ever overwritten.
//   - No write is acknowledged before a replica has it.
package redis

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/redis/go-redis/v9"

	"onced/bench/front"
)

const (
	lease     = 30 * time.Second
	retention = 24 * time.Hour
	replicas  = 1
	patience  = 5 * time.Second // for a replica
	// maxToken bounds a token: what JSON carries as a number without loss.
	maxToken = 1 << 53
)

// complete stores an answer where the token still holds the key. It keeps the fingerprint.
var complete = redis.NewScript(`
local v = redis.call('GET', KEYS[1])
if not v or string.sub(v, 1, #ARGV[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], 'C' .. string.sub(v, 2) .. '\n' .. ARGV[2], 'PX', ARGV[3])
return 1`)

// Store is a front.Store.
type Store struct{ client *redis.Client }

// Open connects to the primary at addr, by so many connections at most.
func Open(addr string, connections int) *Store {
	// A pipeline that fills is synced as a whole: on a busy disk that takes longer than the client's own 3 s. Callers have bounds of their own.
	return &Store{redis.NewClient(&redis.Options{Addr: addr, PoolSize: connections, MaxRetries: -1, DisableIdentity: true, ReadTimeout: time.Minute})}
}

var _ front.Store = (*Store)(nil)

// Reserve implements front.Store.
func (s *Store) Reserve(ctx context.Context, key, fingerprint string) (front.Reservation, error) {
	token := rand.Int64N(maxToken-1) + 1
	var set *redis.StatusCmd
	var synced *redis.Cmd
	_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		set = p.SetArgs(ctx, key, front.Reserved(token, fingerprint), redis.SetArgs{Mode: "NX", Get: true, TTL: lease})
		synced = p.Do(ctx, "wait", replicas, patience.Milliseconds())
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return front.Reservation{}, fmt.Errorf("reserving: %w", err)
	}
	if found, err := set.Bytes(); err == nil {
		return front.Found(found, fingerprint)
	}
	return front.Reservation{Token: token}, waited(synced)
}

// Complete implements front.Store.
func (s *Store) Complete(ctx context.Context, key string, token int64, answer []byte) error {
	var done *redis.Cmd
	var synced *redis.Cmd
	run := func() error {
		_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			done = complete.EvalSha(ctx, p, []string{key}, front.Held(token), answer, retention.Milliseconds())
			synced = p.Do(ctx, "wait", replicas, patience.Milliseconds())
			return nil
		})
		return err
	}
	err := run()
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		if err = complete.Load(ctx, s.client).Err(); err == nil {
			err = run()
		}
	}
	if err != nil {
		return fmt.Errorf("completing: %w", err)
	}
	if n, err := done.Int(); err != nil || n != 1 {
		return front.ErrStaleToken
	}
	return waited(synced)
}

// waited returns an error unless a replica has what was written.
func waited(c *redis.Cmd) error {
	if n, err := c.Int(); err != nil || n < replicas {
		return fmt.Errorf("%d replicas have it: expected %d (%v)", n, replicas, err)
	}
	return nil
}

// Fill implements front.Store.
func (s *Store) Fill(ctx context.Context, keys []string, fingerprint string, answer []byte) error {
	_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for _, key := range keys {
			token := rand.Int64N(maxToken-1) + 1
			p.Set(ctx, key, front.Reserved(token, fingerprint), lease)
			p.Set(ctx, key, front.Completed(token, fingerprint, answer), retention)
		}
		p.Do(ctx, "wait", replicas, patience.Milliseconds())
		return nil
	})
	return err
}

// Tidy implements front.Store: the append-only file is written anew.
func (s *Store) Tidy(ctx context.Context) error {
	if err := s.client.BgRewriteAOF(ctx).Err(); err != nil {
		return fmt.Errorf("rewriting the append-only file: %w", err)
	}
	for {
		info, err := s.client.InfoMap(ctx, "persistence").Result()
		if err != nil {
			return fmt.Errorf("asking whether the append-only file is rewritten: %w", err)
		}
		p := info["Persistence"]
		if p["aof_rewrite_in_progress"] == "0" && p["aof_rewrite_scheduled"] == "0" {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Leader implements front.Store: nobody takes over by itself.
func (s *Store) Leader(context.Context) (string, error) { return "", nil }

// Ready implements front.Store.
func (s *Store) Ready(ctx context.Context) error {
	info, err := s.client.InfoMap(ctx, "replication").Result()
	if err != nil {
		return err
	}
	if n := info["Replication"]["connected_slaves"]; n != "1" {
		return fmt.Errorf("%s replicas are connected: expected %d", n, replicas)
	}
	return nil
}

// Close implements front.Store.
func (s *Store) Close() error { return s.client.Close() }
