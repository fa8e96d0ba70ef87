package s3

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"onced/gateway/blob"
	"onced/gateway/blob/blobtest"
)

func store(t *testing.T, s *standIn, change func(*Config)) *Store {
	t.Helper()
	t.Setenv("TMPDIR", t.TempDir())
	cfg := Config{
		Endpoint: strings.TrimPrefix(s.URL, "http://"), Region: testRegion, Bucket: "answers", Prefix: "onced/", PathStyle: true,
		AccessKey: testAccess, SecretKey: testSecret,
	}
	if change != nil {
		change(&cfg)
	}
	st, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestS3(t *testing.T) {
	s := newStandIn(t)
	blobtest.Check(t, store(t, s, nil), 2*partSize+5)
	if len(s.objects) != 0 || len(s.parts) != 0 {
		t.Errorf("left behind: %d objects, %d uploads", len(s.objects), len(s.parts))
	}
	for _, verb := range []string{"put", "part", "get", "list", "delete"} {
		if s.verbs[verb] == 0 {
			t.Errorf("no %s was seen", verb)
		}
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) != 0 {
		t.Errorf("left behind in the temporary directory: %v, %v", left, err)
	}
}

// TestStandInRefusesForgeries breaks what the stand-in is there to check.
func TestStandInRefusesForgeries(t *testing.T) {
	request := func(change func(*http.Request)) error {
		r, err := http.NewRequest("GET", "http://examplebucket.s3.amazonaws.com/test.txt", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Body = http.NoBody
		r.Header.Set("Range", "bytes=0-9")
		r.Header.Set("X-Amz-Content-Sha256", digest(nil))
		r.Header.Set("X-Amz-Date", "20130524T000000Z")
		r.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+testAccess+"/20130524/"+testRegion+"/s3/aws4_request,SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,Signature="+vector)
		change(r)
		_, err = checkSigned(r, testSecret)
		return err
	}
	if err := request(func(*http.Request) {}); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*http.Request){
		"path":   func(r *http.Request) { r.URL.Path = "/test2.txt" },
		"verb":   func(r *http.Request) { r.Method = "PUT" },
		"header": func(r *http.Request) { r.Header.Set("Range", "bytes=0-10") },
		"query":  func(r *http.Request) { r.URL.RawQuery = "a=b" },
		"date":   func(r *http.Request) { r.Header.Set("X-Amz-Date", "20130525T000000Z") },
	} {
		if request(change) == nil {
			t.Errorf("another %s was taken", name)
		}
	}
}

// vector is the signature of the request in TestStandInRefusesForgeries, by another implementation (openssl dgst -hmac).
const vector = "fcc5bac7ad9b82e8504140b598b7a6663582297290bd72a1803a1b8881251fa2"

func TestS3WithAWrongKey(t *testing.T) {
	s := newStandIn(t)
	s.t = new(testing.T) // its complaint is what is wanted
	st := store(t, s, func(c *Config) { c.SecretKey = "another" })
	w, err := st.Create(t.Context(), blob.NewName(time.Now()))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Commit(t.Context()); err == nil {
		t.Fatal("no error")
	}
}

// TestS3Errors has a store that fails: what is not there is told from what cannot be read.
func TestS3Errors(t *testing.T) {
	s := newStandIn(t)
	st := store(t, s, nil)
	n := blob.NewName(time.Now().Add(-2 * time.Hour))
	blobtest.Put(t, st, n, []byte("x"))
	s.fail = func(*http.Request) int { return http.StatusForbidden }
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := st.Open(ctx, n); err == nil || errors.Is(err, blob.ErrNotFound) {
		t.Errorf("open: %v", err)
	}
	if err := st.Delete(ctx, n); err == nil {
		t.Error("delete: no error")
	}
	if _, err := st.Sweep(ctx, time.Now()); err == nil {
		t.Error("sweep: no error")
	}
	w, err := st.Create(ctx, n)
	if err != nil {
		t.Fatal(err)
	}
	w.Write([]byte("x"))
	if err := w.Commit(ctx); err == nil {
		t.Error("commit: no error")
	}
	s.fail = func(r *http.Request) int {
		if r.Method == "DELETE" {
			return http.StatusForbidden
		}
		return 0
	}
	if n, err := st.Sweep(ctx, time.Now()); n != 0 || err == nil {
		t.Errorf("sweep: %d, %v", n, err)
	}
}

// TestS3SweepLeavesOthersAlone has objects in the bucket that are not blobs of ours.
func TestS3SweepLeavesOthersAlone(t *testing.T) {
	s := newStandIn(t)
	st := store(t, s, nil)
	for _, name := range []string{"2001010101/" + strings.Repeat("a", 64), "onced/README", "onced/2001010101/notes", "onced/2001010101x/" + strings.Repeat("a", 64), "onced/2001010101"} {
		s.objects[name] = []byte("theirs")
	}
	mine := blob.Name("2001010101/" + strings.Repeat("b", 64))
	blobtest.Put(t, st, mine, []byte("mine"))
	if n, err := st.Sweep(t.Context(), time.Now()); n != 1 || err != nil {
		t.Fatalf("%d, %v", n, err)
	}
	blobtest.Expect(t, st, mine, nil)
	if len(s.objects) != 5 {
		t.Fatalf("%d objects are left", len(s.objects))
	}
}

// TestS3RetriesAFault has a store that is overloaded once.
func TestS3RetriesAFault(t *testing.T) {
	s := newStandIn(t)
	st := store(t, s, nil)
	failed := false
	s.fail = func(r *http.Request) int {
		if r.Method == "PUT" && !failed {
			failed = true
			return http.StatusServiceUnavailable
		}
		return 0
	}
	n, body := blob.NewName(time.Now()), bytes.Repeat([]byte("again\n"), 50_000)
	blobtest.Put(t, st, n, body)
	blobtest.Expect(t, st, n, body)
	if !failed {
		t.Fatal("nothing failed")
	}
}
