package stamp

import (
	"slices"
	"testing"
)

func TestAll(t *testing.T) {
	a, b := Stamp{Event: 7, Written: 1 << 60}, Stamp{Event: 1 << 63, Written: -1}
	broken := []byte(mark + "no hexadecimal digits are here..")
	message := slices.Concat([]byte("{"), a.Value(100), broken, b.Value(0), []byte(mark+"12"))
	if got := slices.Collect(All(message)); !slices.Equal(got, []Stamp{a, b}) {
		t.Errorf("%v", got)
	}
	if n := len(a.Value(100)); n != 100 {
		t.Errorf("a value of 100 bytes has %d", n)
	}
}

func TestNowMovesOn(t *testing.T) {
	if a, b := Now(), Now(); a <= 0 || b < a {
		t.Errorf("%d, then %d", a, b)
	}
}
