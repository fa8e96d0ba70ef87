package config

import (
	"strings"
	"testing"
)

// TestEveryErrorOfTheBlockHasItsLine breaks one line of a block after the other.
func TestEveryErrorOfTheBlockHasItsLine(t *testing.T) {
	const whole = `gateway:
  addr: 127.0.0.1:9999
  upstream: http://127.0.0.1:3000
  tenant: header:X-Account
  detect_window: 1m
  max_body_memory: 1GiB
  header_timeout: 10s
  body_timeout: 10s
  min_body_rate: 16KiB
  blobs:
    dir: /nowhere
    max_blob: 1GiB
    timeout: 30s
  routes:
    # a comment
    - match: POST /charge
      lease: 30s
      fingerprint:
        body: auto
        headers:
          - X-One
          - X-Two
        ignore_fields: [/a]
      store:
        - 2xx
        - 3xx
        - 4xx
      retention_by_status:
        404: 10s
        4xx: 20s
    - match: POST /refund
      key: required
      reuse_connections: false
      max_concurrent: 10
`
	s := defaults(t)
	s.Config = write(t, whole)
	if _, err := Load(s, none); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ old, new, want string }{
		{"upstream: http://127.0.0.1:3000", "upstream: ftp://x", ":3: gateway: upstream: "},
		{"upstream: http://127.0.0.1:3000", "upstream: http://localhost:9999", ":3: gateway: upstream: it is the gateway's own addr"},
		{"tenant: header:X-Account", "tenant: everyone", ":4: gateway: tenant: "},
		{"  tenant: header:X-Account\n", "", ":2: gateway: tenant: it must be said"},
		{"detect_window: 1m", "detect_window: 2h", ":5: gateway: detect_window: "},
		{"max_body_memory: 1GiB", "max_body_memory: 1KiB", ":6: gateway: max_body_memory: 1024 bytes are less than routes[0]"},
		{"header_timeout: 10s", "header_timeout: 0s", ":7: gateway: header_timeout: "},
		{"body_timeout: 10s", "body_timeout: soon", ":8: gateway: body_timeout: "},
		{"min_body_rate: 16KiB", "min_body_rate: 0", ":9: gateway: min_body_rate: "},
		{"    dir: /nowhere\n", "", ":10: gateway: blobs: expected either dir or s3"},
		{"    dir: /nowhere\n", "    s3:\n      endpoint: nowhere\n", ":12: gateway: blobs: s3: endpoint: "},
		{"    dir: /nowhere\n", "    s3: {endpoint: 'https://h', bucket: B}\n", ":11: gateway: blobs: s3: bucket: "},
		{"    dir: /nowhere\n", "    s3: {endpoint: 'https://h', bucket: bbb, prefix: a}\n", ":11: gateway: blobs: s3: prefix: "},
		{"    dir: /nowhere\n", "    s3: {endpoint: 'https://h', bucket: bbb}\n", ":11: gateway: blobs: s3: access_key_file: it must be said"},
		{"max_blob: 1GiB", "max_blob: 1GB", ":12: gateway: blobs: max_blob: "},
		{"timeout: 30s", "timeout: 0s", ":13: gateway: blobs: timeout: "},
		{"match: POST /charge", "match: GET /charge", ":16: gateway: routes[0] (GET /charge): match: "},
		{"lease: 30s", "lease: 30", ":17: gateway: routes[0] (POST /charge): lease: "},
		{"lease: 30s", "leese: 30s", `:17: gateway.routes[0]: unknown option "leese": expected one of contract, `},
		{"lease: 30s", "wait: 61s", ":17: gateway: routes[0] (POST /charge): wait: "},
		{"lease: 30s", "lease: [30s]", ":17: gateway.routes[0].lease: expected a single value, not a list"},
		{"lease: 30s", "key: off", ":24: gateway: routes[0] (POST /charge): store: it is said beside key: off"},
		{"lease: 30s", "max_concurrent: 0", ":17: gateway: routes[0] (POST /charge): max_concurrent: "},
		{"lease: 30s", "keep_headers: X", ":17: gateway.routes[0].keep_headers: expected a list, not \"X\""},
		{"body: auto", "body: some", ":19: gateway: routes[0] (POST /charge): fingerprint: body "},
		{"body: auto", "bodies: auto", `:19: gateway.routes[0].fingerprint: unknown option "bodies": expected one of body, headers, ignore_fields`},
		{"- X-Two", "- X Two", ":22: gateway: routes[0] (POST /charge): fingerprint: headers: "},
		{"- X-Two", "- {a: b}", ":22: gateway.routes[0].fingerprint.headers[1]: expected a single value"},
		{"ignore_fields: [/a]", "ignore_fields: [a]", ":23: gateway: routes[0] (POST /charge): fingerprint: ignore_fields"},
		{"- 4xx", "- 600", `:27: gateway: routes[0] (POST /charge): store: "600"`},
		{"404: 10s", "404: 1ms", ":29: gateway: routes[0] (POST /charge): retention_by_status: 404: "},
		{"404: 10s", "503: 10s", ":29: gateway: routes[0] (POST /charge): retention_by_status: 503 is never stored"},
		{"4xx: 20s", "9xx: 20s", `:30: gateway: routes[0] (POST /charge): retention_by_status: "9xx"`},
		{"4xx: 20s", "4xx: [20s]", ":30: gateway.routes[0].retention_by_status.4xx: expected a single value"},
		{"match: POST /refund", "match: POST /Charge", ":31: gateway: routes[1] (POST /Charge): match: it is never reached, as routes[0]"},
		{"key: required", "key: perhaps", ":32: gateway: routes[1] (POST /refund): key: "},
		{"reuse_connections: false", "reuse_connections: perhaps", ":33: gateway.routes[1].reuse_connections: expected true or false, not \"perhaps\""},
		{"    - match: POST /refund\n      key: required\n      reuse_connections: false\n      max_concurrent: 10\n", "    - POST /refund\n", ":31: gateway.routes[1]: expected options"},
		{"    - match: POST /refund\n      key: required\n      reuse_connections: false\n      max_concurrent: 10\n", "    -\n", ":31: gateway.routes: entry 1 is empty"},
	} {
		if strings.Count(whole, c.old) != 1 && !strings.HasPrefix(c.old, "lease") && !strings.HasPrefix(c.old, "timeout") {
			t.Errorf("%q stands %d times in the block", c.old, strings.Count(whole, c.old))
		}
		text := strings.Replace(whole, "    "+c.old, "    "+c.new, 1)
		if text == whole {
			text = strings.Replace(whole, c.old, c.new, 1)
		}
		s := defaults(t)
		s.Config = write(t, text)
		_, err := Load(s, none)
		wantLine(t, err, "onced.yaml"+c.want)
	}
}

// TestOnlyTheFileHasLines judges a block that did not come from a file, and one without any entry.
func TestOnlyTheFileHasLines(t *testing.T) {
	s := defaults(t)
	s.Config = write(t, "node_id: n1\ngateway:\n  {}\n")
	_, err := Load(s, none)
	wantLine(t, err, "onced.yaml:3: gateway: upstream: ")
	s.Config = write(t, "node_id: n1\ngateway: POST /charge\n")
	_, err = Load(s, none)
	wantLine(t, err, "onced.yaml:2: gateway: expected options, one `name: value` a line, not \"POST /charge\"")
}

// TestAnchorsInTheBlock lets routes share what they have in common.
func TestAnchorsInTheBlock(t *testing.T) {
	const text = `gateway:
  upstream: http://127.0.0.1:3000
  tenant: single
  routes:
    - &common
      match: POST /charge
      lease: 45s
      store: &kept [2xx]
    - <<: *common
      match: POST /refund
      store: *kept
`
	s := defaults(t)
	s.Config = write(t, text)
	got, err := Load(s, none)
	if err != nil {
		t.Fatal(err)
	}
	if r := got.Gateway.Routes[1]; r.Match != "POST /refund" || r.Lease != "45s" || len(r.Store) != 1 {
		t.Errorf("the second route is %+v", r)
	}
	s.Config = write(t, strings.Replace(text, "    - <<: *common\n      match: POST /refund\n", "    - match: POST /refund\n      <<: *common\n", 1))
	_, err = Load(s, none)
	wantLine(t, err, "onced.yaml:10: gateway.routes[1]: << stands behind other names: expected it first")
	s.Config = write(t, strings.Replace(text, "lease: 45s", "lease: 45s\n      lease: 46s", 1))
	_, err = Load(s, none)
	wantLine(t, err, "onced.yaml:8: ")
	s.Config = write(t, strings.Replace(text, "lease: 45s", "leese: 45s", 1))
	_, err = Load(s, none)
	wantLine(t, err, `onced.yaml:7: gateway.routes[0]: unknown option "leese"`)
	s.Config = write(t, strings.Replace(text, "POST /refund", "GET /refund", 1))
	_, err = Load(s, none)
	wantLine(t, err, "onced.yaml:10: gateway: routes[1] (GET /refund): match: ")
}
