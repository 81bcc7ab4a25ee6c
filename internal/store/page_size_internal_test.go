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

// Pages that were too large for the connection become smaller, and do not grow back.
func TestPageSizeFollowsTheConnection(t *testing.T) {
	p := pageSize{maxBytes: 16}
	p.note(32, 32)
	if got := p.next(1000); got != 16 {
		t.Fatalf("got %d records, want 16", got)
	}
	if !p.shrink(16) || p.next(1000) != 8 {
		t.Errorf("after a page that was too large: got %d records, want 8", p.next(1000))
	}
	p.note(8, 8)
	if got := p.next(1000); got != 8 {
		t.Errorf("after a full page: got %d records, want 8", got)
	}
	for range 10 {
		p.shrink(p.next(1000))
	}
	if p.shrink(1) || p.next(1000) != 1 {
		t.Errorf("got %d records, want pages of one record, and no smaller ones", p.next(1000))
	}
	if p.note(1, 1); p.next(1000) != 1 {
		t.Errorf("got %d records, want 1 of the size of the smallest page", p.next(1000))
	}
}
