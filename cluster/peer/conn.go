package peer

import (
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// errSealed is what a write on a sealed connection returns.
var errSealed = errors.New("connection given up before anything was written")

// conn is a connection of the port after its preface, in either direction.
type conn struct {
	net.Conn
	port         *Port
	writeTimeout time.Duration // each Write gets it as its deadline; 0 = the owner sets deadlines
	raft         bool          // of raft, not of a call

	mu     sync.Mutex
	writes uint64 // Write calls begun; guarded by mu
	sealed bool   // no Write begins any more; guarded by mu
	once   sync.Once
}

// Write counts before it writes, so that seal can prove that nothing left.
func (c *conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	if c.sealed {
		c.mu.Unlock()
		return 0, errSealed
	}
	c.writes++
	c.mu.Unlock()
	if c.writeTimeout > 0 {
		if err := c.SetWriteDeadline(time.Now().Add(c.writeTimeout)); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(b)
}

// written returns how many writes were begun.
func (c *conn) written() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes
}

// seal closes the connection for good if no write was begun since written
// returned mark, and tells whether that is so. net/http may still hold a request
// that it has not begun to write when it gives up on it; after seal it cannot.
func (c *conn) seal(mark uint64) bool {
	c.mu.Lock()
	clean := c.writes == mark
	if clean {
		c.sealed = true
	}
	c.mu.Unlock()
	if clean {
		c.Close()
	}
	return clean
}

// Read turns "closed by this side" into the end of the stream: the port closing
// is no fault that raft's transport has to report.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil && errors.Is(err, net.ErrClosed) {
		err = io.EOF
	}
	return n, err
}

// Close closes the connection and forgets it.
func (c *conn) Close() error {
	c.once.Do(func() { c.port.forget(c) })
	return c.Conn.Close()
}
