package wire

var memberFields = []string{"id", "address"}

// DecodeMember reads the body of a call that adds a member: its node id, and the address of its cluster
// port. Whether they are some is for the cluster to judge.
//
// Problems: invalid_request.
func DecodeMember(data []byte) (id, addr string, err error) {
	err = decodeCall(data, func(s *scanner) error {
		seen, err := s.object(memberFields, func(field string) (err error) {
			switch field {
			case "id":
				id, err = s.str()
			case "address":
				addr, err = s.str()
			}
			return err
		})
		if err != nil {
			return err
		}
		if err := s.missing(memberFields, seen, "id", "the node's --node-id"); err != nil {
			return err
		}
		return s.missing(memberFields, seen, "address", "host:port of its cluster port")
	})
	return id, addr, err
}
