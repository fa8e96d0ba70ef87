package founding

// Paths of the calls. Each takes and gives JSON; unknown members are ignored, so
// that a later version may add some.
const (
	PathHello  = "/founding/hello"
	PathInvite = "/founding/invite"
	PathJoin   = "/founding/join"
)

// Hello is what a node says about itself: the body of a hello and its answer.
type Hello struct {
	NodeID      string   `json:"node_id"`
	Address     string   `json:"address"`
	ClusterID   string   `json:"cluster_id"` // "" = its directory is empty
	Phase       Phase    `json:"phase"`
	HasState    bool     `json:"has_raft_state"`
	Peers       []Peer   `json:"peers"` // its --peers
	Join        string   `json:"join"`  // its --join
	Incarnation string   `json:"incarnation"`
	Language    int      `json:"language_version"` // of the commands that it understands
	WallMS      int64    `json:"wall_ms"`          // its wall clock, Unix milliseconds
	Members     []Member `json:"members"`          // as its raft knows them; none before it runs
}

// empty tells whether the node belongs to no cluster.
func (h Hello) empty() bool { return h.ClusterID == "" }

// invite is the founder's call to a listed peer.
type invite struct {
	ClusterID   string `json:"cluster_id"`
	From        string `json:"from"`        // the founder's node id
	To          string `json:"to"`          // the invitee's
	Incarnation string `json:"incarnation"` // of the invitee, out of its hello
	Peers       []Peer `json:"peers"`
}

// joinRequest asks to be added as a learner.
type joinRequest struct {
	NodeID    string `json:"node_id"`
	Address   string `json:"address"`
	ClusterID string `json:"cluster_id"` // that the caller's directory holds by now
}

// joinAnswer is the answer to a joinRequest: added (200), or whom to ask (421).
type joinAnswer struct {
	ClusterID string `json:"cluster_id"`
	Leader    string `json:"leader"` // its address
}
