package store

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"onced"
	"onced/fsm"
)

// ListQuery says which records of a tenant to list.
type ListQuery struct {
	Tenant string
	Scope  *string  // nil = every scope
	Prefix string   // of the key
	After  onced.ID // Scope and Key of where the last page ended; an empty Key = from the start
	Open   bool     // only records that are not settled (running or unknown), at the cost of those alone
	// Match, where it is not nil, tells whether to take a record; it must not change the row or call the Table.
	Match func(*fsm.Row) bool
	Limit int // records in the page at most; 0 = none
	Work  int // records and scopes looked at at most, taken or not; 0 = DefaultListWork
}

// DefaultListWork bounds what one page looks at, so that a filter that matches little does not
// hold the table for long.
const DefaultListWork = 10_000

// ListRow is a record of a page.
type ListRow struct {
	ID  onced.ID
	Row *fsm.Row
}

// ListPage is one page, in the order of (scope, key).
type ListPage struct {
	Rows []ListRow
	Next onced.ID // After for the next page, where More
	More bool     // there may be more; a page may be empty and have more
}

// List returns the records that a query asks for, as of one moment.
func (t *Table) List(q ListQuery) (ListPage, error) {
	if q.Work <= 0 {
		q.Work = DefaultListWork
	}
	var page ListPage
	err := t.use(func(d *db) (err error) {
		page, err = d.list(q)
		return err
	})
	if err != nil {
		return ListPage{}, fmt.Errorf("listing the records of %s: %w", q.Tenant, err)
	}
	return page, nil
}

// list walks the rows, or the index of open rows, and leaps from scope to scope where the
// prefix is over.
func (d *db) list(q ListQuery) (page ListPage, err error) {
	s := d.NewSnapshot()
	defer func() { err = errors.Join(err, s.Close()) }()
	space := byte(spaceRow)
	if q.Open {
		space = spaceOpen
	}
	lower, upper := q.bounds(space)
	iter, err := s.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return page, err
	}
	defer func() { err = errors.Join(err, iter.Close()) }()

	page.Next = q.After
	ok := iter.First()
	for work := 0; ok; work++ {
		if len(page.Rows) >= q.Limit || work >= q.Work {
			page.More = true
			return page, nil
		}
		id, _, err := decodeID(iter.Key()[1:])
		if err != nil {
			return page, err
		}
		page.Next = id // also where it does not match: each page gets on
		if !strings.HasPrefix(string(id.Key), q.Prefix) {
			ok = iter.SeekGE(q.leap(space, id))
			continue
		}
		row, err := q.read(s, iter, id)
		if err != nil {
			return page, err
		}
		if q.Match == nil || q.Match(row) {
			page.Rows = append(page.Rows, ListRow{id, row})
		}
		ok = iter.Next()
	}
	return page, iter.Error()
}

// bounds are the first and the end, exclusive, of the keys that a query can match.
func (q ListQuery) bounds(space byte) (lower, upper []byte) {
	tenant := append([]byte{space}, q.Tenant...)
	lower, upper = append(tenant[:len(tenant):len(tenant)], 0), append(tenant[:len(tenant):len(tenant)], 1)
	if q.Scope != nil {
		scope := append(lower[:len(lower):len(lower)], *q.Scope...)
		lower = append(append(scope[:len(scope):len(scope)], 0), q.Prefix...)
		upper = append(scope[:len(scope):len(scope)], 1)
	}
	if q.After.Key != "" {
		after := onced.ID{Tenant: q.Tenant, Scope: q.After.Scope, Key: q.After.Key}
		from := append(idKey(nil, space, after), 0) // the smallest key after it
		if string(from) > string(lower) {
			lower = from
		}
	}
	return lower, upper
}

// leap is where to go on from a key that does not have the prefix: to the prefix within its scope,
// or past the scope.
func (q ListQuery) leap(space byte, at onced.ID) []byte {
	if string(at.Key) < q.Prefix {
		at.Key = onced.Key(q.Prefix)
		return idKey(nil, space, at)
	}
	b := append([]byte{space}, at.Tenant...)
	b = append(append(b, 0), at.Scope...)
	return append(b, 1)
}

// read returns the row that the iterator stands at, or that an entry of the open index stands for.
func (q ListQuery) read(s *pebble.Snapshot, iter *pebble.Iterator, id onced.ID) (*fsm.Row, error) {
	if q.Open {
		row, err := rowOf(s, id)
		if err == nil && row == nil {
			err = fmt.Errorf("%w: the open record %q has no row", ErrDamaged, id)
		}
		return row, err
	}
	v, err := iter.ValueAndErr()
	if err != nil {
		return nil, err
	}
	return fsm.DecodeRow(v)
}
