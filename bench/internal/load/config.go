package load

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/tally"
)

// Config says what a process watches, and how.
type Config struct {
	Protocol    string `json:"protocol"` // one of Protocols
	Client      string `json:"client"`   // one of Clients
	Address     string `json:"address"`  // host and port
	Keys        int    `json:"keys"`     // that are written to
	Watchers    int    `json:"watchers"` // 0 is a process that does nothing
	Connections int    `json:"connections"`
	PerStream   int    `json:"per_stream"` // watches on a stream, where the protocol can have several; 1 or more
	Interest    string `json:"interest"`   // one of Interests
	Groups      int    `json:"groups"`     // with label: how many values the label has; with except: how many interests there are

	Bystand string `json:"bystand,omitempty"` // one of Bystands: these watch what nobody writes; "" is that they do not

	Hold     bool      `json:"hold,omitempty"`     // connect, and wait for the command to watch
	Snapshot bool      `json:"snapshot,omitempty"` // begin with the state; else with what happens from now on
	After    *Position `json:"after,omitempty"`    // begin behind this
	Seen     int       `json:"seen,omitempty"`     // changes of each key that are behind them there

	List     bool `json:"list,omitempty"`      // list everything, instead of watching, each time that the command to watch comes
	PageSize int  `json:"page_size,omitempty"` // objects in a page; 0 is as many as the server gives

	Stall    string        `json:"stall,omitempty"`        // one of Stalls: how they do not read; "" is that they do
	StallFor time.Duration `json:"stall_for_ns,omitempty"` // after what time they leave and come again; 0 is never
}

// Position is where a watch goes on, as its server has told.
type Position struct {
	Epoch    string `json:"epoch,omitempty"`
	Revision int64  `json:"revision"`
}

// The interests of watchers.
const (
	InterestAll   = "all"   // every watcher in all keys
	InterestKey   = "key"   // each in one key
	InterestLabel = "label" // each in the keys of one group, picked by a label
	// InterestExcept is that every watcher is in all keys, and that so many of them
	// as Groups says are interests of their own: each in all but those with a label
	// that none has.
	InterestExcept = "except"
)

// The ways to watch what nobody writes.
const (
	BystandKey      = "key"      // each a key of its own
	BystandOne      = "one"      // all the same key
	BystandSelector = "selector" // each with a selector of its own that matches nothing and that no index finds
)

// Bystands are the values of Config.Bystand, besides "".
var Bystands = []string{BystandKey, BystandOne, BystandSelector}

// Interests are the values of Config.Interest.
var Interests = []string{InterestAll, InterestKey, InterestLabel, InterestExcept}

// Interests returns the interest of each watcher.
func (c Config) Interests() []tally.Interest {
	all := make([]tally.Interest, c.Watchers)
	for i := range all {
		switch {
		case c.Bystand != "":
			all[i] = tally.Interest{Step: 1}
		case c.Interest == InterestKey:
			all[i] = tally.Interest{First: i % c.Keys, Step: 1, Count: 1}
		case c.Interest == InterestLabel:
			group := i % c.Groups
			all[i] = tally.Interest{First: group, Step: c.Groups, Count: (c.Keys - group + c.Groups - 1) / c.Groups}
		default:
			all[i] = tally.All(c.Keys)
		}
	}
	return all
}

// key returns the one key that a watcher watches, if it watches one.
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

// selector returns the label selector with which a watcher watches, or "".
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

// Key is the name of a key, below the prefix of all of them. Those that are written to
// are the first.
func Key(i int) string { return fmt.Sprintf("k%06d", i) }

// Group is the value of the label that the objects of a group have.
func Group(i int) string { return fmt.Sprintf("g%d", i) }

// Label is the name of that label.
const Label = "group"

// Prefix is what all keys begin with in etcd; those of fanoutd's resource Resource.
const (
	Resource = "bench"
	Prefix   = "/fanoutd/" + Resource + "/"
	// behindPrefix is what comes behind all of them: a zero is behind a slash.
	behindPrefix = "/fanoutd/" + Resource + "0"

	Subject = "fanoutbench" // the same in NATS, and the name of its bucket
)

// SubjectOf is what a key is called in NATS. Labels are a part of it there.
func (c Config) SubjectOf(key int) string {
	if c.Interest == InterestLabel {
		return Subject + "." + Group(key%c.Groups) + "." + Key(key)
	}
	return Subject + "." + Key(key)
}

// share returns which watchers are on a connection: from, and up to but without to.
func (c Config) share(connection int) (from, to int) {
	return connection * c.Watchers / c.Connections, (connection + 1) * c.Watchers / c.Connections
}

// Problem returns what is wrong with the configuration.
func (c Config) Problem() error {
	switch {
	case c.Watchers < 0 || c.Connections < min(c.Watchers, 1) || c.Connections > c.Watchers:
		return fmt.Errorf("%d watchers on %d connections: each connection needs one", c.Watchers, c.Connections)
	case c.Keys < 1 || c.PerStream < 1:
		return fmt.Errorf("%d keys, %d watches on a stream: at least 1", c.Keys, c.PerStream)
	case c.Interest == InterestLabel && (c.Groups < 1 || c.Groups > c.Keys):
		return fmt.Errorf("%d groups of %d keys: from 1 to that many", c.Groups, c.Keys)
	case c.Interest == InterestExcept && c.Groups < 1:
		return fmt.Errorf("%d interests: at least 1", c.Groups)
	case !slices.Contains(Interests, c.Interest):
		return fmt.Errorf("interest %q: one of %s", c.Interest, strings.Join(Interests, ", "))
	case c.List && !c.Hold:
		return errors.New("lists are made when the command comes: they are held back")
	case (c.Snapshot || c.After != nil) && c.PerStream > 1:
		return fmt.Errorf("%d watches on a stream that begin with what was before: one", c.PerStream)
	case c.Stall != "" && !slices.Contains(Stalls, c.Stall):
		return fmt.Errorf("stall %q: one of %s", c.Stall, strings.Join(Stalls, ", "))
	case c.Bystand != "" && !slices.Contains(Bystands, c.Bystand):
		return fmt.Errorf("bystand %q: one of %s", c.Bystand, strings.Join(Bystands, ", "))
	case (c.Bystand == BystandSelector || c.Interest == InterestExcept) && c.Protocol != "fanoutd":
		return fmt.Errorf("%s has no selectors", c.Protocol)
	}
	_, err := c.connector()
	return err
}
