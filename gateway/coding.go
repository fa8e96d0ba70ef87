package gateway

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
)

// maxCodings is how many content codings one body may have. More than one is rare, and each multiplies what
// a few bytes can grow to.
const maxCodings = 4

var (
	errDecodedTooLarge = errors.New("decoded, the body is beyond the limit")
	errUnknownCoding   = errors.New("unknown content coding")
)

// codingsOf returns the codings of a Content-Encoding header, in the order in which they were applied, in lower
// case, without identity.
func codingsOf(coding string) []string {
	var list []string
	for one := range strings.SplitSeq(coding, ",") {
		switch one = strings.ToLower(strings.TrimSpace(one)); one {
		case "", "identity":
		case "x-gzip":
			list = append(list, "gzip")
		default:
			list = append(list, one)
		}
	}
	return list
}

// decodeContent undoes the content codings of a body: gzip, deflate, br and zstd, also several. coding is the value
// of its Content-Encoding. It takes memory for at most max bytes at each step, and for the decoder.
//
// Errors: errDecodedTooLarge; errUnknownCoding, also for more than maxCodings; any other where the body is not what
// coding says, or not whole.
func decodeContent(coding string, body []byte, max int64) ([]byte, error) {
	list := codingsOf(coding)
	if len(list) > maxCodings {
		return nil, fmt.Errorf("%w: %d of them on one body", errUnknownCoding, len(list))
	}
	for i := len(list) - 1; i >= 0; i-- {
		var err error
		if body, err = decodeOne(list[i], body, max); err != nil {
			return nil, err
		}
	}
	return body, nil
}

func decodeOne(coding string, body []byte, max int64) ([]byte, error) {
	decoder, done, err := newDecoder(coding, body)
	if err != nil {
		return nil, err
	}
	defer done()
	plain, err := io.ReadAll(io.LimitReader(decoder, max+1))
	if int64(len(plain)) > max {
		return nil, errDecodedTooLarge
	}
	return plain, err
}

// zstdWindow bounds a decoder's memory; RFC 9659 has every encoder of HTTP stay within it.
const zstdWindow = 8 << 20

func newDecoder(coding string, body []byte) (io.Reader, func(), error) {
	in, nothing := bytes.NewReader(body), func() {}
	switch coding {
	case "gzip":
		z, err := gzip.NewReader(in)
		return z, nothing, err
	case "deflate":
		if z, err := zlib.NewReader(in); err == nil {
			return z, nothing, nil
		}
		return flate.NewReader(bytes.NewReader(body)), nothing, nil // without zlib's frame, as some servers send it
	case "br":
		return brotli.NewReader(in), nothing, nil
	case "zstd":
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(zstdWindow))
		if err != nil {
			return nil, nil, err
		}
		return z, z.Close, nil
	}
	return nil, nil, fmt.Errorf("%w: %.40q", errUnknownCoding, coding)
}
