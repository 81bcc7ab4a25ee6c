package delivery

// Interest is the set of keys that a watcher watches: First and every Step-th key after it,
// Count keys in total.
type Interest struct {
	First int `json:"first"`
	Step  int `json:"step"`
	Count int `json:"count"`
}

// All returns the interest in all keys.
func All(keys int) Interest { return Interest{0, 1, keys} }

// slot returns the number of a key within the interest, and whether the interest contains
// the key.
func (i Interest) slot(key int) (int, bool) {
	d := key - i.First
	return d / i.Step, d >= 0 && d%i.Step == 0 && d/i.Step < i.Count
}

// Key is the inverse of slot.
func (i Interest) Key(slot int) int { return i.First + slot*i.Step }
