package stamp

import (
	"slices"
	"testing"
)

func TestAllFindsIntactStamps(t *testing.T) {
	a, b := Stamp{Event: 7, Written: 1 << 60}, Stamp{Event: 1 << 63, Written: -1}
	damaged := []byte(mark + "no hexadecimal digits are here..")
	message := slices.Concat([]byte("{"), a.Value(100), damaged, b.Value(0), []byte(mark+"12"))
	if got, want := slices.Collect(All(message)), []Stamp{a, b}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := len(a.Value(100)); got != 100 {
		t.Errorf("got a value of %d bytes, want 100", got)
	}
}

func TestNowIsMonotonic(t *testing.T) {
	if a, b := Now(), Now(); a <= 0 || b < a {
		t.Errorf("got %d, then %d, want increasing positive times", a, b)
	}
}
