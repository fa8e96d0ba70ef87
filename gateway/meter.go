package gateway

// Meter is told what Event does not say. Its methods must not block, and may be called at once.
type Meter interface {
	// UnderWay tells that so many operations more, or fewer, of a route are at the upstream.
	UnderWay(route string, change int)
	// Overloaded tells of a request that was refused for want of room; reason is max_concurrent,
	// max_body_memory or slow_body.
	Overloaded(route, reason string)
	// BodyBytes tells that so many bytes more, or fewer, of bodies are held in memory.
	BodyBytes(change int64)
	// Suspected tells of a payload that came again under another key of its tenant.
	Suspected(tenant string)
	// Blob tells what became of n answers by reference: kept, not_kept, replayed, missing, damaged,
	// unreadable, or swept.
	Blob(event string, n int)
}

// The reasons of Meter.Overloaded.
const (
	reasonConcurrent = "max_concurrent"
	reasonMemory     = "max_body_memory"
	reasonSlowBody   = "slow_body"
)

// The events of Meter.Blob.
const (
	blobKept       = "kept"
	blobNotKept    = "not_kept"
	blobReplayed   = "replayed"
	blobMissing    = "missing"
	blobDamaged    = "damaged"
	blobUnreadable = "unreadable"
	blobSwept      = "swept"
)

// noMeter is the Meter of those who want none.
type noMeter struct{}

func (noMeter) UnderWay(string, int)      {}
func (noMeter) Overloaded(string, string) {}
func (noMeter) BodyBytes(int64)           {}
func (noMeter) Suspected(string)          {}
func (noMeter) Blob(string, int)          {}
