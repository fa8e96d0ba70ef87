package gateway

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// promises are the fields of a route that its contract does not leave to it. They are judged last, when
// every field has its value.
func (rt *route) promises(r Route) []field {
	return []field{
		{"key", rt.promisesKey},
		{"retention", rt.promisesRetention},
		{"retention_by_status", func() error { return rt.promisesTerms(r) }},
		{"on_unknown", func() error { return rt.promisesPolicy(r) }},
		{"store", rt.promisesStore},
	}
}

// broken returns the error of a field that says what the contract cannot keep.
func (rt *route) broken(format string, args ...any) error {
	return fmt.Errorf("contract %s %s; say something else, or choose another contract", rt.contract.name, fmt.Sprintf(format, args...))
}

func (rt *route) promisesKey() error {
	if rt.contract.needsKey && rt.key != keyRequired {
		return rt.broken("refuses a request without a key, and this route has key: %s", rt.key)
	}
	return nil
}

func (rt *route) promisesRetention() error {
	if least := rt.contract.minKept; rt.retention < least {
		return rt.broken("keeps answers for %s, and %s is less", least, rt.retention)
	}
	return nil
}

// promisesTerms is promisesRetention for single statuses. It goes by their order, so that the same file has
// the same error each time.
func (rt *route) promisesTerms(r Route) error {
	for _, text := range slices.Sorted(maps.Keys(r.RetentionByStatus)) {
		code, class, err := parseStatus(text)
		if err != nil {
			return err
		}
		if term, least := rt.retentionOf(max(code, 100*class)), rt.contract.minKept; term < least {
			return rt.broken("keeps answers for %s, and %s of %s is less", least, term, text)
		}
	}
	return nil
}

func (rt *route) promisesPolicy(r Route) error {
	if rt.contract.fixedPolicy && r.OnUnknown != "" && r.OnUnknown != rt.contract.onUnknown {
		return rt.broken("has on_unknown: %s, never %s", rt.contract.onUnknown, r.OnUnknown)
	}
	return nil
}

func (rt *route) promisesStore() error {
	always, err1 := parseStatuses(rt.contract.always)
	never, err2 := parseStatuses(rt.contract.never)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	for status := 200; status <= 599; status++ {
		switch kept := rt.dispositionOf(status) == keepAnswer; {
		case kept && never.has(status):
			return rt.broken("never keeps the answer of a %d, which store has and release has not", status)
		case !kept && always.has(status):
			return rt.broken("keeps the answer of every %d, which store has not", status)
		}
	}
	return nil
}
