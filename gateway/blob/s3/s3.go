package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"onced/gateway/blob"
)

// Config says where the bucket is and who asks.
type Config struct {
	Endpoint  string // host:port
	Secure    bool   // https
	Region    string
	Bucket    string
	Prefix    string // of every object's name; "" = none, else it ends with a slash
	PathStyle bool   // the bucket is in the path, not in the host's name
	AccessKey string
	SecretKey string
	Transport http.RoundTripper // nil = the library's
}

// partSize is how much of a larger object is uploaded at a time.
const partSize = 16 << 20

// Store is a blob.Store in a bucket.
type Store struct {
	client *minio.Client
	cfg    Config
}

// New returns a Store. Nothing is asked of the bucket yet.
func New(cfg Config) (*Store, error) {
	lookup := minio.BucketLookupAuto
	if cfg.PathStyle {
		lookup = minio.BucketLookupPath
	}
	client, err := minio.New(cfg.Endpoint, &minio.Options{
		Creds: credentials.NewStaticV4(cfg.AccessKey, cfg.SecretKey, ""), Secure: cfg.Secure, Region: cfg.Region,
		BucketLookup: lookup, Transport: cfg.Transport,
	})
	if err != nil {
		return nil, fmt.Errorf("the S3 store: %w", err)
	}
	return &Store{client: client, cfg: cfg}, nil
}

func (s *Store) object(n blob.Name) string { return s.cfg.Prefix + string(n) }

// Create is part of blob.Store.
func (s *Store) Create(_ context.Context, n blob.Name) (blob.Writer, error) {
	f, err := os.CreateTemp("", "onced-blob-")
	if err != nil {
		return nil, fmt.Errorf("creating the file that gathers a blob: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, fmt.Errorf("creating the file that gathers a blob: %w", err)
	}
	return &writer{store: s, file: f, name: n}, nil
}

// writer gathers one blob in a file that has no name any more.
type writer struct {
	store *Store
	file  *os.File
	size  int64
	name  blob.Name
}

// Write is part of blob.Writer.
func (w *writer) Write(p []byte) (int, error) {
	n, err := w.file.Write(p)
	w.size += int64(n)
	if err != nil {
		err = fmt.Errorf("gathering a blob: %w", err)
	}
	return n, err
}

// Commit is part of blob.Writer. The store's word that it has the object is taken for durable.
func (w *writer) Commit(ctx context.Context) error {
	defer w.Abort()
	if _, err := w.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("uploading a blob: %w", err)
	}
	_, err := w.store.client.PutObject(ctx, w.store.cfg.Bucket, w.store.object(w.name), w.file, w.size,
		minio.PutObjectOptions{ContentType: "application/octet-stream", PartSize: partSize, NumThreads: 2})
	if err != nil {
		return fmt.Errorf("uploading a blob: %w", err)
	}
	return nil
}

// Abort is part of blob.Writer.
func (w *writer) Abort() { w.file.Close() }

// Open is part of blob.Store.
func (s *Store) Open(ctx context.Context, n blob.Name) (io.ReadSeekCloser, error) {
	object, err := s.client.GetObject(ctx, s.cfg.Bucket, s.object(n), minio.GetObjectOptions{})
	if err == nil {
		_, err = object.Stat() // the library asks only now
		if err != nil {
			object.Close()
		}
	}
	switch {
	case isMissing(err):
		return nil, blob.ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("opening a blob: %w", err)
	}
	return object, nil
}

func isMissing(err error) bool {
	return err != nil && minio.ToErrorResponse(err).Code == minio.NoSuchKey
}

// Delete is part of blob.Store.
func (s *Store) Delete(ctx context.Context, n blob.Name) error {
	return s.remove(ctx, s.object(n))
}

func (s *Store) remove(ctx context.Context, object string) error {
	err := s.client.RemoveObject(ctx, s.cfg.Bucket, object, minio.RemoveObjectOptions{})
	if err != nil && !isMissing(err) {
		return fmt.Errorf("deleting a blob: %w", err)
	}
	return nil
}

// Sweep is part of blob.Store. It asks for the hours first, and then for what is in those that are due. Another
// gateway that sweeps at the same time deletes the same objects, which S3 takes for well done.
func (s *Store) Sweep(ctx context.Context, now time.Time) (int, error) {
	count := 0
	var errs []error
	for hour := range s.client.ListObjectsIter(ctx, s.cfg.Bucket, minio.ListObjectsOptions{Prefix: s.cfg.Prefix}) {
		if hour.Err != nil {
			errs = append(errs, fmt.Errorf("listing the hours of the blobs: %w", hour.Err))
			break
		}
		due, err := blob.ParseHour(strings.TrimSuffix(strings.TrimPrefix(hour.Key, s.cfg.Prefix), "/"))
		if err != nil || !due.Before(now) || !strings.HasSuffix(hour.Key, "/") {
			continue
		}
		n, err := s.sweepHour(ctx, hour.Key)
		count += n
		errs = append(errs, err)
	}
	return count, errors.Join(errs...)
}

func (s *Store) sweepHour(ctx context.Context, prefix string) (int, error) {
	count := 0
	var errs []error
	for object := range s.client.ListObjectsIter(ctx, s.cfg.Bucket, minio.ListObjectsOptions{Prefix: prefix, Recursive: true}) {
		if object.Err != nil {
			errs = append(errs, fmt.Errorf("listing the blobs: %w", object.Err))
			break
		}
		if _, err := blob.ParseName(strings.TrimPrefix(object.Key, s.cfg.Prefix)); err != nil {
			continue // not ours
		}
		if err := s.remove(ctx, object.Key); err != nil {
			errs = append(errs, err)
			continue
		}
		count++
	}
	return count, errors.Join(errs...)
}
