package work

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/valyala/fasthttp"
)

// callWithin bounds one call.
const callWithin = 15 * time.Second

// fingerprint is that of every key.
const fingerprint = "bench"

// caller sends calls to one door at a time. It belongs to one goroutine.
type caller struct {
	doors    []*fasthttp.HostClient
	door     int
	request  *fasthttp.Request
	response *fasthttp.Response
	body     []byte
}

// dial returns the clients of urls, which callers share. A call is sent once: a client that repeats by itself would hide what the system did.
func dial(urls []string, within time.Duration) (all []*fasthttp.HostClient) {
	for _, url := range urls {
		all = append(all, &fasthttp.HostClient{
			Addr: strings.TrimPrefix(url, "http://"), MaxConns: 4096, MaxIdleConnDuration: time.Minute, ReadTimeout: within, WriteTimeout: within,
			MaxIdemponentCallAttempts: 1, NoDefaultUserAgentHeader: true, MaxResponseBodySize: 64 << 20,
		})
	}
	return all
}

func hangUp(doors []*fasthttp.HostClient) {
	for _, d := range doors {
		d.CloseIdleConnections()
	}
}

func newCaller(doors []*fasthttp.HostClient, number int) *caller {
	return &caller{doors: doors, door: number % len(doors), request: fasthttp.AcquireRequest(), response: fasthttp.AcquireResponse()}
}

// next turns to the next door.
func (c *caller) next() { c.door = (c.door + 1) % len(c.doors) }

// post sends body to path of the caller's door. The answer is in c.response.
func (c *caller) post(path string, body []byte, headers ...string) error {
	d := c.doors[c.door]
	c.request.Reset()
	c.request.Header.SetMethod(fasthttp.MethodPost)
	c.request.Header.SetContentType("application/json")
	c.request.SetRequestURI(path)
	c.request.Header.SetHost(d.Addr)
	for i := 0; i < len(headers); i += 2 {
		c.request.Header.Set(headers[i], headers[i+1])
	}
	c.request.SetBodyRaw(body)
	if err := d.Do(c.request, c.response); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// refused is the error of an answer that is none of those expected.
func (c *caller) refused(what string) error {
	return fmt.Errorf("%s: status %d: %.200s", what, c.response.StatusCode(), c.response.Body())
}

// answered is what this package reads of an answer.
type answered struct {
	Status   int             `json:"status"`
	Token    int64           `json:"token"`
	Replayed bool            `json:"replayed"`
	Response json.RawMessage `json:"response"`
}

// ErrRepeated says that a new key was not new.
var ErrRepeated = errors.New("a new key was replayed")

// reserve reserves a new key.
func (c *caller) reserve(key string) (token int64, err error) {
	if err := c.post("/v1/keys/"+key+"/reserve", []byte(reserveBody)); err != nil {
		return 0, err
	}
	var a answered
	switch c.response.StatusCode() {
	case fasthttp.StatusCreated:
		err = json.Unmarshal(c.response.Body(), &a)
	case fasthttp.StatusOK:
		return 0, ErrRepeated
	default:
		return 0, c.refused("reserve")
	}
	if err == nil && a.Token <= 0 {
		err = c.refused("reserve without a token")
	}
	return a.Token, err
}

// reserveBody is the call of every reserve.
const reserveBody = `{"fingerprint":"` + fingerprint + `"}`

// complete stores the answer.
func (c *caller) complete(key string, token int64, answer string) error {
	c.body = append(c.body[:0], `{"token":`...)
	c.body = strconv.AppendInt(c.body, token, 10)
	c.body = append(append(append(c.body, `,"response":`...), answer...), '}')
	if err := c.post("/v1/keys/"+key+"/complete", c.body); err != nil {
		return err
	}
	if c.response.StatusCode() != fasthttp.StatusOK {
		return c.refused("complete")
	}
	return nil
}

// pair reserves a new key and completes it.
func (c *caller) pair(key, answer string) error {
	token, err := c.reserve(key)
	if err != nil {
		return err
	}
	return c.complete(key, token, answer)
}

// ErrNotReplayed says that a completed key was not answered with what was stored.
var ErrNotReplayed = errors.New("a completed key was not replayed as it was stored")

// replay reserves a completed key, and holds the answer's body to the stored one.
func (c *caller) replay(key, body string) error {
	if err := c.post("/v1/keys/"+key+"/reserve", []byte(reserveBody)); err != nil {
		return err
	}
	if c.response.StatusCode() != fasthttp.StatusOK {
		return c.refused("replay")
	}
	var a answered
	if err := json.Unmarshal(c.response.Body(), &a); err != nil {
		return err
	}
	var stored struct {
		Body string `json:"body"`
	}
	if !a.Replayed || json.Unmarshal(a.Response, &stored) != nil || stored.Body != body {
		return ErrNotReplayed
	}
	return nil
}

// Body is a stored answer's body of n bytes that does not compress to nothing, the same at each call.
func Body(n int) string { return scrambled(2463534242, n) }

// bodyOf is another one for each key.
func bodyOf(key string, n int) string {
	h := fnv.New32a()
	h.Write([]byte(key)) // it never fails
	return scrambled(h.Sum32()|1, n)
}

// scrambled is letters by a xorshift whose state, not 0, begins as given.
func scrambled(state uint32, n int) string {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	b := make([]byte, n)
	for i := range b {
		state ^= state << 13
		state ^= state >> 17
		state ^= state << 5
		b[i] = letters[state%uint32(len(letters))]
	}
	return string(b)
}

// answerOf is the JSON of a stored answer.
func answerOf(body string) string {
	return `{"status":201,"headers":[["Content-Type","text/plain"]],"body":"` + body + `"}`
}
