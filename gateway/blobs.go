package gateway

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"onced/gateway/blob"
	"onced/gateway/blob/s3"
)

// Blobs is the block `blobs`: where answers are kept that are larger than max_response. Exactly one of Dir
// and S3 is said.
type Blobs struct {
	Dir     string   `yaml:"dir"`      // a directory that all gateways share
	S3      *S3      `yaml:"s3"`       // or a bucket
	MaxBlob Size     `yaml:"max_blob"` // 256MiB; what is larger is not kept
	Timeout Duration `yaml:"timeout"`  // 30s, of storing one answer once it is there, and of finding one
}

// S3 names a bucket of an S3-compatible store.
type S3 struct {
	Endpoint      string `yaml:"endpoint"`        // https://host[:port]
	Region        string `yaml:"region"`          // "" = asked from the store
	Bucket        string `yaml:"bucket"`          // it must be there
	Prefix        string `yaml:"prefix"`          // of the objects' names, such as onced/
	AccessKeyFile string `yaml:"access_key_file"` // the file holds the id of the access key and nothing else
	SecretKeyFile string `yaml:"secret_key_file"` // the file holds its secret and nothing else
	PathStyle     bool   `yaml:"path_style"`      // https://host/bucket instead of https://bucket.host
}

const (
	defaultMaxBlob     = 256 << 20
	mostMaxBlob        = 64 << 30
	defaultBlobTimeout = 30 * time.Second
	// blobSlack is how long a blob outlasts the retention of its record: gateways' clocks, and an answer that
	// could be recorded only late.
	blobSlack = time.Hour
)

// blobPlan is the block, judged.
type blobPlan struct {
	dir     string // "" = s3
	s3      *S3
	max     int64
	timeout time.Duration
}

// blobStore is a store in force.
type blobStore struct {
	blob.Store
	max     int64
	timeout time.Duration
	busy    bound // goroutines that wait for it; one that hangs must not gather them without end
}

// mostWaiting bounds blobStore.busy.
const mostWaiting = 256

func newBlobStore(s blob.Store, max int64, timeout time.Duration) *blobStore {
	b := &blobStore{Store: s, max: max, timeout: timeout}
	b.busy.limit.Store(mostWaiting)
	return b
}

var errBlobBusy = errors.New("too many answers wait for the store")

var errOneStore = errors.New("expected either dir or s3")

func compileBlobs(b *Blobs) (*blobPlan, error) {
	if b == nil {
		return nil, nil
	}
	p := &blobPlan{dir: b.Dir, s3: b.S3}
	if (b.Dir == "") == (b.S3 == nil) {
		return nil, errOneStore
	}
	if b.S3 != nil {
		if err := b.S3.judge(); err != nil {
			return nil, at("s3", err)
		}
	}
	var err error
	if p.max, err = b.MaxBlob.within(defaultMaxBlob, mostMaxBlob); err != nil {
		return nil, at("max_blob", err)
	}
	if p.timeout, err = b.Timeout.within(defaultBlobTimeout, 100*time.Millisecond, time.Hour); err != nil {
		return nil, at("timeout", err)
	}
	return p, nil
}

var bucketForm = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

func (s *S3) judge() error {
	u, err := url.Parse(s.Endpoint)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		return at("endpoint", fmt.Errorf("%q is no endpoint: expected https://host or https://host:port; the bucket has a line of its own", s.Endpoint))
	}
	if !bucketForm.MatchString(s.Bucket) {
		return at("bucket", fmt.Errorf("%q is no bucket's name: expected 3 to 63 of a-z 0-9 . -", s.Bucket))
	}
	if strings.HasPrefix(s.Prefix, "/") || strings.Contains(s.Prefix, "//") || s.Prefix != "" && !strings.HasSuffix(s.Prefix, "/") {
		return at("prefix", fmt.Errorf("%q: expected a folder's name with a slash at its end and none at its start, such as onced/", s.Prefix))
	}
	for _, f := range []struct{ name, path string }{{"access_key_file", s.AccessKeyFile}, {"secret_key_file", s.SecretKeyFile}} {
		if f.path == "" {
			return at(f.name, errors.New("it must be said: expected a file that holds the key and nothing else"))
		}
	}
	return nil
}

// open makes the store ready. It touches the disk, so it is no part of compile.
func (p *blobPlan) open() (*blobStore, error) {
	if p == nil {
		return nil, nil
	}
	if p.dir != "" {
		dir, err := blob.OpenDir(p.dir)
		return newBlobStore(dir, p.max, p.timeout), at("dir", err)
	}
	cfg, err := p.s3.config()
	if err != nil {
		return nil, at("s3", err)
	}
	bucket, err := s3.New(cfg)
	return newBlobStore(bucket, p.max, p.timeout), at("s3", err)
}

func (s *S3) config() (s3.Config, error) {
	u, err := url.Parse(s.Endpoint)
	if err != nil {
		return s3.Config{}, at("endpoint", err)
	}
	c := s3.Config{Endpoint: u.Host, Secure: u.Scheme == "https", Region: s.Region, Bucket: s.Bucket, Prefix: s.Prefix, PathStyle: s.PathStyle}
	if c.AccessKey, err = readKey(s.AccessKeyFile); err != nil {
		return c, at("access_key_file", err)
	}
	if c.SecretKey, err = readKey(s.SecretKeyFile); err != nil {
		return c, at("secret_key_file", err)
	}
	return c, nil
}

func readKey(path string) (string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	key := strings.TrimSpace(string(raw))
	if key == "" || strings.ContainsAny(key, " \t\r\n") {
		return "", fmt.Errorf("%s: expected one key and nothing else", path)
	}
	return key, nil
}
