package blob

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"regexp"
	"time"
)

// Name is the name of a blob: the hour (UTC) in which it is due to be deleted, a slash, and 64
// hexadecimal digits that chance picked. The hour is in it so that a sweep has to look at no blob.
type Name string

const hourForm = "2006010215"

var nameForm = regexp.MustCompile(`^[0-9]{10}/[0-9a-f]{64}$`)

// NewName makes a name of a blob that is not needed after due.
func NewName(due time.Time) Name {
	var id [32]byte
	rand.Read(id[:]) // never fails
	hour := due.UTC().Add(time.Hour - 1).Truncate(time.Hour)
	return Name(hour.Format(hourForm) + "/" + hex.EncodeToString(id[:]))
}

// ParseName returns text as a name if it has the form of one.
func ParseName(text string) (Name, error) {
	if !nameForm.MatchString(text) {
		return "", fmt.Errorf("%.100q is no name of a blob", text)
	}
	if _, err := ParseHour(text[:len(hourForm)]); err != nil {
		return "", err
	}
	return Name(text), nil
}

// Hour returns the first part of the name.
func (n Name) Hour() string { return string(n[:len(hourForm)]) }

// ParseHour returns the time that an hour of a name stands for.
func ParseHour(text string) (time.Time, error) {
	t, err := time.Parse(hourForm, text)
	if err != nil || t.Format(hourForm) != text {
		return time.Time{}, fmt.Errorf("%.40q is no hour of a blob's name", text)
	}
	return t, nil
}
