package main

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

// heapGoal is the size of the heap at which the next collection ends, in bytes, as of a collection just now.
func heapGoal() uint64 {
	runtime.GC()
	goal := []metrics.Sample{{Name: "/gc/heap/goal:bytes"}}
	metrics.Read(goal)
	return goal[0].Value.Uint64()
}

func TestRoomForGarbage(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // whatever the environment of the tests says
	for name, env := range map[string]map[string]string{
		"GOGC":       {"GOGC": "100"},
		"GOMEMLIMIT": {"GOMEMLIMIT": "100MiB"},
	} {
		if room := roomForGarbage(env); room != nil {
			t.Errorf("with %s there is a room of %d bytes, expected none", name, len(room))
		}
	}
	before := heapGoal()
	room := roomForGarbage(map[string]string{"ONCED_NODE_ID": "n1"})
	// The room itself, and as much again.
	if after := heapGoal(); after < before+2*garbageRoom*9/10 {
		t.Errorf("the heap may grow to %d bytes with the room and to %d without it, expected %d more", after, before, 2*garbageRoom)
	}
	runtime.KeepAlive(room)
}
