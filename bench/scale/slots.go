package main

import (
	"fmt"
	"sync"

	"github.com/cespare/xxhash/v2"
)

const (
	// slots are what keys are spread over; groups hold whole slots.
	slots      = 4096
	spreadKeys = 1_000_000
)

// slotOf is the slot of a key.
func slotOf(tenant, key string) int {
	return int(xxhash.Sum64String(tenant+"\x00"+key) % slots)
}

// counted is how many of spreadKeys keys of one tenant, one after the other as a counter makes them, fall into each slot.
var counted = sync.OnceValue(func() (in [slots]int) {
	for i := range spreadKeys {
		in[slotOf("default", fmt.Sprintf("order-%d", i))]++
	}
	return in
})

// spread is the largest group's share over the mean, where group n has every slot that is n modulo groups.
func spread(in [slots]int, groups int) float64 {
	sums := make([]int, groups)
	for slot, n := range in {
		sums[slot%groups] += n
	}
	most := 0
	for _, n := range sums {
		most = max(most, n)
	}
	return float64(most) * float64(groups) / spreadKeys
}
