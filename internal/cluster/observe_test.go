package cluster

import (
	"slices"
	"testing"
)

// The configured list is compared with the addresses of etcd's members, without regard to TLS.
func TestDifferences(t *testing.T) {
	o := NewObserver(list, "node-1", 0, nil)
	for _, tt := range []struct{ members, onlyListed, onlyMembers []string }{
		{members: []string{"https://h1:2380", "http://h2:2380", "https://h3:2380"}},
		{members: []string{"https://h1:2380", "https://h2:2380"}, onlyListed: []string{"node-3 h3:2380"}},
		{
			members:    []string{"https://h1:2380", "https://h2:2380", "https://h4:2380"},
			onlyListed: []string{"node-3 h3:2380"}, onlyMembers: []string{"https://h4:2380"},
		},
	} {
		if listed, members := o.Differences(tt.members); !slices.Equal(listed, tt.onlyListed) || !slices.Equal(members, tt.onlyMembers) {
			t.Errorf("%v: got %v and %v", tt.members, listed, members)
		}
	}
}
