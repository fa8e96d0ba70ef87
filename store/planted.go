package store

import "os"

// writeApart and readApart are planted.IndexApart: the applied index in a file of its own, which is there at once, while
// its data waits for a flush.
func (t *Table) writeApart(state tableState) {
	path := t.files.path("planted-" + t.db.name)
	if os.WriteFile(path+".new", state.append(nil), 0o600) == nil {
		_ = os.Rename(path+".new", path)
	}
}

func readApart(f files, name string, state tableState) tableState {
	raw, err := os.ReadFile(f.path("planted-" + name))
	if err != nil {
		return state
	}
	apart, err := decodeState(raw)
	if err != nil || apart.applied < state.applied {
		return state
	}
	return apart
}
