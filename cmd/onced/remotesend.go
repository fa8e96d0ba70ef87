package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// changeWithin is how long one node has to answer a command that changes the cluster: longer than it tries
// (--request-timeout of its own, 10s unless set).
const changeWithin = 30 * time.Second

// answered is an error that is a node's own word: asking another node gives the same.
type answered struct {
	status int // of HTTP; 0 = the error is of this machine
	err    error
}

func (a answered) Error() string { return a.err.Error() }
func (a answered) Unwrap() error { return a.err }

// request is one call without a time limit of its own.
func (r remote) request(ctx context.Context, method, path string, body any) (*http.Request, error) {
	var sent io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		sent = bytes.NewReader(raw)
	}
	request, err := http.NewRequestWithContext(ctx, method, r.base+path, sent)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.base, err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if r.token != "" {
		request.Header.Set("Authorization", "Bearer "+r.token)
	}
	if r.tenant != "" {
		request.Header.Set("Onced-Tenant", r.tenant)
	}
	return request, nil
}

// send asks for a change and reads the JSON of its answer into v, where there is one. Its error is answered when the node has
// decided.
func (r remote) send(ctx context.Context, method, path string, body, v any) error {
	ctx, cancel := context.WithTimeout(ctx, changeWithin)
	defer cancel()
	request, err := r.request(ctx, method, path, body)
	if err != nil {
		return err
	}
	response, err := r.http.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if err := r.refused(response); err != nil {
		return err
	}
	if v == nil {
		return nil
	}
	if err := json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(v); err != nil {
		return fmt.Errorf("reading the answer of %s: %w", r.base, err)
	}
	return nil
}

// refused returns the refusal that a response is, nil for a success.
func (r remote) refused(response *http.Response) error {
	if response.StatusCode < 300 {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return fmt.Errorf("reading the answer of %s: %w", r.base, err)
	}
	refused := fmt.Errorf("%s: %s", r.base, complaint(response.StatusCode, body))
	if response.StatusCode >= 500 {
		return refused // another node may be able to
	}
	return answered{response.StatusCode, refused}
}

// inTurn asks the nodes one after the other until one has decided.
func (c *clusterFlags) inTurn(ctx context.Context, ask func(r remote) error) error {
	nodes, err := c.remotes()
	if err != nil {
		return refusal{err}
	}
	var errs []error
	for _, node := range nodes {
		err := ask(node)
		var decided answered
		switch {
		case err == nil, errors.As(err, &decided):
			return err
		case ctx.Err() != nil:
			return errors.New("interrupted; what was asked for may have been done")
		}
		errs = append(errs, err)
	}
	return fmt.Errorf("no node could: %w", oneLine(errs))
}
