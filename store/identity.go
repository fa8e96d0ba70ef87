package store

import (
	"errors"
	"fmt"
	"io/fs"
)

// FormatVersion is the version of everything in a data directory that this release writes and reads.
const FormatVersion = 1

// Phases of an identity that this package's tests use; package founding has them all.
const (
	PhaseInvited  = "invited"  // a founder named the cluster; raft has not heard of it yet
	PhaseFounding = "founding" // this node founds the cluster and has not bootstrapped raft yet
	PhaseMember   = "member"   // it is, or was, a member
)

// Identity says whose data directory it is.
type Identity struct {
	FormatVersion int    `json:"format_version"` // 0 is taken for FormatVersion by SetIdentity
	ClusterID     string `json:"cluster_id"`
	NodeID        string `json:"node_id"`
	Phase         string `json:"phase"`
}

const identityFile = "identity.json"

// Identity returns whose directory it is; false for one that is nobody's yet.
func (d *Dir) Identity() (Identity, bool) {
	d.identityMu.Lock()
	defer d.identityMu.Unlock()
	if d.identity == nil {
		return Identity{}, false
	}
	return *d.identity, true
}

// SetIdentity replaces the identity. It is durable when the call returns; an error leaves the
// old or the new one in force at the next Open.
func (d *Dir) SetIdentity(id Identity) error {
	if id.FormatVersion == 0 {
		id.FormatVersion = FormatVersion
	}
	if err := id.check(); err != nil {
		return fmt.Errorf("setting the identity: %w", err)
	}
	data, err := seal(id)
	if err != nil {
		return fmt.Errorf("encoding the identity: %w", err)
	}
	d.identityMu.Lock()
	defer d.identityMu.Unlock()
	if err := d.files.replace("identity", d.files.path(identityFile), data); err != nil {
		return fmt.Errorf("setting the identity: %w", err)
	}
	d.identity = &id
	return nil
}

func (id Identity) check() error {
	switch {
	case id.FormatVersion != FormatVersion:
		return fmt.Errorf("the data directory has format version %d; this release reads %d", id.FormatVersion, FormatVersion)
	case id.ClusterID == "":
		return errors.New("the cluster id is empty")
	case id.NodeID == "":
		return errors.New("the node id is empty")
	case id.Phase == "":
		return errors.New("the phase is empty")
	}
	return nil
}

// readIdentity returns nil for a directory that is nobody's yet.
func readIdentity(f files) (*Identity, error) {
	path := f.path(identityFile)
	data, err := f.read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var id Identity
	if err := unseal(data, &id); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if err := id.check(); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return &id, nil
}
