package load

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/delivery"
)

// Config describes the watchers of a process.
type Config struct {
	Protocol    string `json:"protocol"` // one of Protocols
	Client      string `json:"client"`   // one of Clients
	Address     string `json:"address"`  // host and port
	Keys        int    `json:"keys"`     // number of keys that are written
	Watchers    int    `json:"watchers"` // 0: the process does nothing
	Connections int    `json:"connections"`
	PerStream   int    `json:"per_stream"` // watches per stream of a service for many watches; 0: each watch has a stream of its own
	Interest    string `json:"interest"`   // one of Interests
	Groups      int    `json:"groups"`     // with label: number of label values; with except: number of interests

	Bystand string `json:"bystand,omitempty"` // one of Bystands, for watchers of objects that never change; "": ordinary watchers

	Bookmarks time.Duration `json:"bookmarks_ns,omitempty"` // bookmark interval; 0: none
	Reports   time.Duration `json:"reports_ns,omitempty"`   // each watch reports its position at most this often; 0: never

	Hold     bool      `json:"hold,omitempty"`     // connect, then wait for the command to watch
	Snapshot bool      `json:"snapshot,omitempty"` // begin with the state; otherwise with the next change
	After    *Position `json:"after,omitempty"`    // begin after this position
	Seen     int       `json:"seen,omitempty"`     // changes of each key before that position

	List     bool `json:"list,omitempty"`      // at each command to watch, list all objects instead
	PageSize int  `json:"page_size,omitempty"` // objects per page; 0: the server decides

	Stall    string        `json:"stall,omitempty"`        // one of Stalls; "": the watchers read
	StallFor time.Duration `json:"stall_for_ns,omitempty"` // time after which stalled watchers reconnect; 0: never
}

// Position is the position after which a watch begins, as its server reported it.
type Position struct {
	Epoch    string `json:"epoch,omitempty"`
	Revision int64  `json:"revision"`
}

// The values of Config.Interest.
const (
	InterestAll   = "all"   // every watcher watches all keys
	InterestKey   = "key"   // each watches one key
	InterestLabel = "label" // each watches one group of keys, selected by a label
	// InterestExcept: every watcher watches all keys, with Groups distinct selectors. Each
	// selector excludes a label that no object has.
	InterestExcept = "except"
)

// The values of Config.Bystand, besides "": ways to watch objects that never change.
const (
	BystandKey      = "key"      // each watches a key of its own
	BystandOne      = "one"      // all watch the same key
	BystandSelector = "selector" // each has a selector of its own that matches nothing and that no index covers
)

// Bystands lists the values of Config.Bystand, besides "".
var Bystands = []string{BystandKey, BystandOne, BystandSelector}

// Interests lists the values of Config.Interest.
var Interests = []string{InterestAll, InterestKey, InterestLabel, InterestExcept}

// Interests returns the interest of each watcher.
func (c Config) Interests() []delivery.Interest {
	all := make([]delivery.Interest, c.Watchers)
	for i := range all {
		switch {
		case c.Bystand != "":
			all[i] = delivery.Interest{Step: 1}
		case c.Interest == InterestKey:
			all[i] = delivery.Interest{First: i % c.Keys, Step: 1, Count: 1}
		case c.Interest == InterestLabel:
			group := i % c.Groups
			all[i] = delivery.Interest{First: group, Step: c.Groups, Count: (c.Keys - group + c.Groups - 1) / c.Groups}
		default:
			all[i] = delivery.All(c.Keys)
		}
	}
	return all
}

// key returns the key of a watcher that watches a single key.
func (c Config) key(watcher int) (key int, ok bool) {
	switch {
	case c.Bystand == BystandKey:
		return c.Keys + watcher, true
	case c.Bystand == BystandOne:
		return c.Keys, true
	case c.Bystand == "" && c.Interest == InterestKey:
		return watcher % c.Keys, true
	}
	return 0, false
}

// selector returns the label selector of a watcher, or "".
func (c Config) selector(watcher int) string {
	switch {
	case c.Bystand == BystandSelector:
		return fmt.Sprintf("%s,%s notin (%s)", Label, Label, Group(watcher))
	case c.Bystand != "":
	case c.Interest == InterestLabel:
		return Label + "=" + Group(watcher%c.Groups)
	case c.Interest == InterestExcept:
		return Label + "!=" + Group(watcher%c.Groups)
	}
	return ""
}

// Key returns the name of a key below the common prefix. The keys that are written come
// first.
func Key(i int) string { return fmt.Sprintf("k%06d", i) }

// Group returns the label value of a group.
func Group(i int) string { return fmt.Sprintf("g%d", i) }

// Label is the name of the label of groups.
const Label = "group"

// Prefix is the common prefix of all keys in etcd: that of the resource named Resource.
const (
	Resource = "bench"
	Prefix   = "/fanoutd/" + Resource + "/"
	// prefixEnd is the end of the range of Prefix: "0" follows "/".
	prefixEnd = "/fanoutd/" + Resource + "0"

	Subject = "fanoutbench" // the common prefix in NATS, and the name of the bucket
)

// SubjectOf returns the NATS subject of a key. The subject contains the label.
func (c Config) SubjectOf(key int) string {
	if c.Interest == InterestLabel {
		return Subject + "." + Group(key%c.Groups) + "." + Key(key)
	}
	return Subject + "." + Key(key)
}

// streamSize returns the largest number of watches of a stream.
func (c Config) streamSize() int { return max(c.PerStream, 1) }

// share returns the watchers of a connection, as a half-open range.
func (c Config) share(connection int) (from, to int) {
	return connection * c.Watchers / c.Connections, (connection + 1) * c.Watchers / c.Connections
}

// Validate returns what is wrong with the configuration.
func (c Config) Validate() error {
	switch {
	case c.Watchers < 0 || c.Connections < min(c.Watchers, 1) || c.Connections > c.Watchers:
		return fmt.Errorf("%d watchers on %d connections: each connection needs at least one watcher", c.Watchers, c.Connections)
	case c.Keys < 1 || c.PerStream < 0:
		return fmt.Errorf("%d keys, %d watches per stream: want at least 1 key, and no negative number", c.Keys, c.PerStream)
	case c.Interest == InterestLabel && (c.Groups < 1 || c.Groups > c.Keys):
		return fmt.Errorf("%d groups of %d keys: want at least 1, and no more groups than keys", c.Groups, c.Keys)
	case c.Interest == InterestExcept && c.Groups < 1:
		return fmt.Errorf("%d interests: want at least 1", c.Groups)
	case !slices.Contains(Interests, c.Interest):
		return fmt.Errorf("unknown interest %q (want one of %s)", c.Interest, strings.Join(Interests, ", "))
	case c.List && !c.Hold:
		return errors.New("a configuration with list needs hold, because lists start with the command")
	case c.Snapshot && c.PerStream > 1 && c.Protocol != "fanoutd":
		return fmt.Errorf("%d watches per stream of %s that begin with a state: that needs a request for each watch", c.PerStream, c.Protocol)
	case c.Bookmarks < 0 || c.Bookmarks > 0 && c.Protocol != "fanoutd":
		return fmt.Errorf("bookmarks every %v from %s: only fanoutd sends them", c.Bookmarks, c.Protocol)
	case c.Reports < 0 || c.Reports > 0 && (c.Protocol != "fanoutd" || c.PerStream == 0 || c.Client != ClientRaw):
		return fmt.Errorf("reports every %v: the %s client reports on streams of fanoutd that carry many watches, and no other", c.Reports, ClientRaw)
	case c.Stall != "" && !slices.Contains(Stalls, c.Stall):
		return fmt.Errorf("unknown stall %q (want one of %s)", c.Stall, strings.Join(Stalls, ", "))
	case c.Bystand != "" && !slices.Contains(Bystands, c.Bystand):
		return fmt.Errorf("unknown bystand %q (want one of %s)", c.Bystand, strings.Join(Bystands, ", "))
	case (c.Bystand == BystandSelector || c.Interest == InterestExcept) && c.Protocol != "fanoutd":
		return fmt.Errorf("%s has no selectors", c.Protocol)
	}
	_, err := c.connector()
	return err
}
