package tally

// Interest says which keys a watcher is interested in: First and every Step-th after
// it, Count of them.
type Interest struct {
	First int `json:"first"`
	Step  int `json:"step"`
	Count int `json:"count"`
}

// All is the interest in all of so many keys.
func All(keys int) Interest { return Interest{0, 1, keys} }

// slot returns which of its keys this is, and whether it is one of them.
func (i Interest) slot(key int) (int, bool) {
	d := key - i.First
	return d / i.Step, d >= 0 && d%i.Step == 0 && d/i.Step < i.Count
}

// Key returns the key of this number among those of the interest.
func (i Interest) Key(slot int) int { return i.First + slot*i.Step }
