package s3

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	testAccess = "AKIDEXAMPLE"
	testSecret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
	testRegion = "eu-test-1"
)

// standIn is a bucket on loopback that checks the signature of every request, and of every piece of a streamed
// body, on its own.
type standIn struct {
	t *testing.T
	*httptest.Server

	mu      sync.Mutex
	objects map[string][]byte
	parts   map[string]map[int][]byte // by upload
	verbs   map[string]int            // how many requests of a kind were answered
	fail    func(r *http.Request) int // a status instead of an answer; 0 = none
}

func newStandIn(t *testing.T) *standIn {
	s := &standIn{t: t, objects: map[string][]byte{}, parts: map[string]map[int][]byte{}, verbs: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	return s
}

func (s *standIn) serve(w http.ResponseWriter, r *http.Request) {
	body, err := checkSigned(r, testSecret)
	if err != nil {
		s.t.Errorf("%s %s: %v", r.Method, r.URL, err)
		refuse(w, http.StatusForbidden, "SignatureDoesNotMatch")
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		if status := s.fail(r); status != 0 {
			refuse(w, status, "Scripted")
			return
		}
	}
	name, ok := strings.CutPrefix(r.URL.Path, "/answers")
	if !ok {
		refuse(w, http.StatusNotFound, "NoSuchBucket")
		return
	}
	name = strings.TrimPrefix(name, "/")
	q := r.URL.Query()
	switch {
	case r.Method == "GET" && name == "":
		s.list(w, q)
	case r.Method == "PUT" && q.Has("uploadId"):
		s.part(w, q, body)
	case r.Method == "PUT":
		s.objects[name] = body
		w.Header().Set("ETag", etag(body))
		s.verbs["put"]++
	case r.Method == "POST" && q.Has("uploads"):
		id := strconv.Itoa(len(s.parts) + 1)
		s.parts[id] = map[int][]byte{}
		fmt.Fprintf(w, "<InitiateMultipartUploadResult><Bucket>answers</Bucket><Key>%s</Key><UploadId>%s</UploadId></InitiateMultipartUploadResult>", name, id)
	case r.Method == "POST" && q.Has("uploadId"):
		s.join(w, name, q.Get("uploadId"))
	case r.Method == "DELETE" && q.Has("uploadId"):
		delete(s.parts, q.Get("uploadId"))
		w.WriteHeader(http.StatusNoContent)
	case r.Method == "DELETE":
		delete(s.objects, name)
		s.verbs["delete"]++
		w.WriteHeader(http.StatusNoContent)
	default:
		s.get(w, r, name)
	}
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	fmt.Fprintf(w, "<Error><Code>%s</Code><Message>refused by the stand-in</Message></Error>", code)
}

func etag(b []byte) string {
	sum := md5.Sum(b)
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

func (s *standIn) part(w http.ResponseWriter, q url.Values, body []byte) {
	n, err := strconv.Atoi(q.Get("partNumber"))
	if err != nil || s.parts[q.Get("uploadId")] == nil {
		refuse(w, http.StatusNotFound, "NoSuchUpload")
		return
	}
	s.parts[q.Get("uploadId")][n] = body
	w.Header().Set("ETag", etag(body))
	s.verbs["part"]++
}

func (s *standIn) join(w http.ResponseWriter, name, id string) {
	var whole []byte
	for n := 1; n <= len(s.parts[id]); n++ {
		whole = append(whole, s.parts[id][n]...)
	}
	delete(s.parts, id)
	s.objects[name] = whole
	fmt.Fprintf(w, "<CompleteMultipartUploadResult><Bucket>answers</Bucket><Key>%s</Key><ETag>%s</ETag></CompleteMultipartUploadResult>", name, etag(whole))
}

func (s *standIn) get(w http.ResponseWriter, r *http.Request, name string) {
	body, ok := s.objects[name]
	if !ok {
		refuse(w, http.StatusNotFound, "NoSuchKey")
		return
	}
	s.verbs["get"]++
	w.Header().Set("ETag", etag(body))
	http.ServeContent(w, r, "", time.Unix(1_000_000_000, 0), bytes.NewReader(body))
}

// list pages by two, so that clients have to ask again.
func (s *standIn) list(w http.ResponseWriter, q url.Values) {
	type entry struct{ Key string }
	type common struct{ Prefix string }
	var result struct {
		XMLName               xml.Name `xml:"ListBucketResult"`
		IsTruncated           bool
		NextContinuationToken string
		Contents              []entry
		CommonPrefixes        []common
	}
	seen := map[string]bool{}
	var names []string
	for name := range s.objects {
		if rest, ok := strings.CutPrefix(name, q.Get("prefix")); ok {
			if head, _, cut := strings.Cut(rest, "/"); cut && q.Get("delimiter") == "/" {
				name = q.Get("prefix") + head + "/"
			}
			if !seen[name] && name > q.Get("continuation-token") {
				seen[name] = true
				names = append(names, name)
			}
		}
	}
	sort.Strings(names)
	if len(names) > 2 {
		names, result.IsTruncated, result.NextContinuationToken = names[:2], true, names[1]
	}
	for _, name := range names {
		if strings.HasSuffix(name, "/") {
			result.CommonPrefixes = append(result.CommonPrefixes, common{name})
		} else {
			result.Contents = append(result.Contents, entry{name})
		}
	}
	s.verbs["list"]++
	xml.NewEncoder(w).Encode(result)
}

// The signature, version 4, written down from its description.

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// signed is what a request says of its signature.
type signed struct {
	scope, names, signature, date string
	key                           []byte
}

// checkSigned verifies the request's signature and returns its body, out of its chunks where it is streamed.
func checkSigned(r *http.Request, secret string) ([]byte, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s, err := parseSigned(r.Header, secret)
	if err != nil {
		return nil, err
	}
	payload := r.Header.Get("X-Amz-Content-Sha256")
	canonical := []string{r.Method, r.URL.EscapedPath(), strings.ReplaceAll(r.URL.Query().Encode(), "+", "%20")}
	for _, name := range strings.Split(s.names, ";") {
		value := strings.Join(r.Header.Values(name), ",")
		switch name {
		case "host":
			value = r.Host
		case "content-length":
			value = strconv.FormatInt(r.ContentLength, 10)
		}
		canonical = append(canonical, name+":"+strings.TrimSpace(value))
	}
	canonical = append(canonical, "", s.names, payload)
	toSign := strings.Join([]string{"AWS4-HMAC-SHA256", s.date, s.scope, digest([]byte(strings.Join(canonical, "\n")))}, "\n")
	if want := hex.EncodeToString(mac(s.key, toSign)); s.signature != want {
		return nil, fmt.Errorf("the signature is %s, expected %s of\n%s", s.signature, want, strings.Join(canonical, "\n"))
	}
	switch {
	case strings.HasPrefix(payload, "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"):
		return s.chunks(raw)
	case payload == "UNSIGNED-PAYLOAD" && len(raw) == 0:
		return raw, nil
	case strings.HasPrefix(payload, "STREAMING-"):
		return nil, fmt.Errorf("the body is not signed: %s", payload)
	case payload != digest(raw):
		return nil, fmt.Errorf("the body's digest is %s, said %s", digest(raw), payload)
	}
	return raw, nil
}

func parseSigned(h http.Header, secret string) (signed, error) {
	s := signed{date: h.Get("X-Amz-Date")}
	rest, ok := strings.CutPrefix(h.Get("Authorization"), "AWS4-HMAC-SHA256 ")
	if !ok {
		return s, fmt.Errorf("no signature of version 4 in %q", h.Get("Authorization"))
	}
	for _, field := range strings.Split(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(field), "=")
		switch name {
		case "Credential":
			access, scope, _ := strings.Cut(value, "/")
			if access != testAccess || !strings.Contains(scope, "/"+testRegion+"/s3/aws4_request") {
				return s, fmt.Errorf("the credential is %s", value)
			}
			s.scope = scope
		case "SignedHeaders":
			s.names = value
		case "Signature":
			s.signature = value
		}
	}
	s.key = []byte("AWS4" + secret)
	for _, part := range strings.Split(s.scope, "/") {
		s.key = mac(s.key, part)
	}
	return s, nil
}

// chunks decodes a streamed body, and checks the chain of its signatures.
func (s signed) chunks(raw []byte) ([]byte, error) {
	in := bufio.NewReader(bytes.NewReader(raw))
	var body []byte
	for before := s.signature; ; {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil, err
		}
		size, signature, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ";chunk-signature=")
		n, err := strconv.ParseInt(size, 16, 64)
		if err != nil {
			return nil, err
		}
		chunk := make([]byte, n)
		if _, err := io.ReadFull(in, chunk); err != nil {
			return nil, err
		}
		toSign := strings.Join([]string{"AWS4-HMAC-SHA256-PAYLOAD", s.date, s.scope, before, digest(nil), digest(chunk)}, "\n")
		if want := hex.EncodeToString(mac(s.key, toSign)); signature != want {
			return nil, fmt.Errorf("a chunk's signature is %s, expected %s", signature, want)
		}
		if n == 0 {
			return body, nil
		}
		in.Discard(len("\r\n"))
		body, before = append(body, chunk...), signature
	}
}
