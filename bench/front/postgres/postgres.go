// Package postgres keeps the front's keys in PostgreSQL: one table with a unique key, each step one statement that commits on its own.
//
// Invariants:
//
//   - A reserve is one INSERT … ON CONFLICT DO NOTHING, a complete one UPDATE that compares the token.
//   - The session keeps synchronous_commit on.
package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"onced/bench/front"
)

const schema = `CREATE TABLE IF NOT EXISTS keys (
	key text PRIMARY KEY,
	fingerprint text NOT NULL,
	token bigint GENERATED ALWAYS AS IDENTITY,
	created_at timestamptz NOT NULL DEFAULT now(),
	completed_at timestamptz,
	answer bytea)`

// Store is a front.Store.
type Store struct{ pool *pgxpool.Pool }

// Open returns a store on the database of conn, by a pool of so many connections. It connects when it is used.
func Open(ctx context.Context, conn string, connections int) (*Store, error) {
	cfg, err := pgxpool.ParseConfig(conn)
	if err != nil {
		return nil, fmt.Errorf("reading the connection string: %w", err)
	}
	cfg.MaxConns = int32(connections)
	cfg.ConnConfig.RuntimeParams["synchronous_commit"] = "on"
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("making the pool: %w", err)
	}
	return &Store{pool}, nil
}

var _ front.Store = (*Store)(nil)

// Reserve implements front.Store.
func (s *Store) Reserve(ctx context.Context, key, fingerprint string) (front.Reservation, error) {
	var token int64
	err := s.pool.QueryRow(ctx, `INSERT INTO keys (key, fingerprint) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING RETURNING token`, key, fingerprint).Scan(&token)
	if err == nil {
		return front.Reservation{Token: token}, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return front.Reservation{}, fmt.Errorf("reserving: %w", err)
	}
	var of string
	var answer []byte
	if err := s.pool.QueryRow(ctx, `SELECT fingerprint, answer FROM keys WHERE key = $1`, key).Scan(&of, &answer); err != nil {
		return front.Reservation{}, fmt.Errorf("reading the record: %w", err)
	}
	switch {
	case of != fingerprint:
		return front.Reservation{}, front.ErrConflict
	case answer == nil:
		return front.Reservation{}, front.ErrInProgress
	}
	return front.Reservation{Answer: answer}, nil
}

// Complete implements front.Store.
func (s *Store) Complete(ctx context.Context, key string, token int64, answer []byte) error {
	done, err := s.pool.Exec(ctx, `UPDATE keys SET answer = $3, completed_at = now() WHERE key = $1 AND token = $2 AND answer IS NULL`, key, token, answer)
	if err != nil {
		return fmt.Errorf("completing: %w", err)
	}
	if done.RowsAffected() != 1 {
		return front.ErrStaleToken
	}
	return nil
}

// Fill implements front.Store.
func (s *Store) Fill(ctx context.Context, keys []string, fingerprint string, answer []byte) error {
	if _, err := s.pool.Exec(ctx, `INSERT INTO keys (key, fingerprint) SELECT unnest($1::text[]), $2`, keys, fingerprint); err != nil {
		return fmt.Errorf("reserving many: %w", err)
	}
	if _, err := s.pool.Exec(ctx, `UPDATE keys SET answer = $2, completed_at = now() WHERE key = ANY($1)`, keys, answer); err != nil {
		return fmt.Errorf("completing many: %w", err)
	}
	return nil
}

// Tidy implements front.Store: dead rows are removed and the write-ahead log is cut.
func (s *Store) Tidy(ctx context.Context) error {
	if _, err := s.pool.Exec(ctx, `VACUUM FULL keys`); err != nil {
		return fmt.Errorf("vacuum: %w", err)
	}
	_, err := s.pool.Exec(ctx, `CHECKPOINT`)
	return err
}

// Leader implements front.Store: it is one machine.
func (s *Store) Leader(context.Context) (string, error) { return "", nil }

// Ready implements front.Store. The table is made here.
func (s *Store) Ready(ctx context.Context) error {
	_, err := s.pool.Exec(ctx, schema)
	return err
}

// Close implements front.Store.
func (s *Store) Close() error {
	s.pool.Close()
	return nil
}
