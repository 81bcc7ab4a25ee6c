package store

import "testing"

// Pages follow the sizes of the records, and grow slowly.
func TestPageSizeFollowsTheRecords(t *testing.T) {
	const mebibyte = 1 << 20
	p := pageSize{maxBytes: 16 * mebibyte}
	for _, step := range []struct {
		records, bytes, next int
	}{
		{0, 0, 32}, // nothing was learned
		{32, 32 * 100, 64},
		{3, 3 * 100, 64}, // the last page of a list
		{64, 64 * mebibyte, 16},
		{16, 16 * mebibyte, 16},
		{1, 32 * mebibyte, 1},
		{1, 100, 2},
		{1, 0, 2},
		{2, 2 * 100, 4},
	} {
		p.note(step.records, step.bytes)
		if got := p.next(1000); got != step.next {
			t.Errorf("after %d records of %d bytes: got %d, want %d", step.records, step.bytes, got, step.next)
		}
	}
	if got := p.next(3); got != 3 {
		t.Errorf("got %d records, want the limit of 3", got)
	}
}
