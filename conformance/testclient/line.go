// Package testclient runs a client that is tested. A test client is a program that follows watches with
// the client of its language. It reads commands and writes what it sees, one JSON value in each line.
// ../README.md describes the lines.
package testclient

// Command is a line of standard input.
type Command struct {
	// Do is the command: Watch, Stop, Pause, Continue, Reject or Accept.
	Do string `json:"do"`

	// Name is the name of the watch that the command is about. The watch has the prefix "NAME/".
	Name string `json:"name"`

	// With Watch: the addresses of the servers, in the order of use.
	Servers []string `json:"servers,omitempty"`

	// With Watch: the name of the client object that carries the watch. Watches with the same name share
	// connections. Empty: the client object of most watches.
	Client string `json:"client,omitempty"`

	// With Watch: whether the test client uses an informer (a copy that is kept by the client under test)
	// or a watch (the test client applies the events to a copy of its own).
	Informer bool `json:"informer,omitempty"`

	// With Watch: the client asks for merged events (DELIVERY_LATEST).
	Latest bool `json:"latest,omitempty"`

	// With Watch, which has no informer: it begins at the present.
	FromNow bool `json:"fromNow,omitempty"`

	// With Watch, which has no informer: it fails rather than skip events.
	EveryEvent bool `json:"everyEvent,omitempty"`

	// With Watch: what the server selects of the objects.
	LabelSelector string `json:"labelSelector,omitempty"`
	FieldSelector string `json:"fieldSelector,omitempty"`

	// With Watch: the file whose content is the token of each request. Empty: no token.
	TokenFile string `json:"tokenFile,omitempty"`

	// With Watch: the interval of bookmarks in milliseconds.
	BookmarkMillis int `json:"bookmarkMillis,omitempty"`

	// With Watch: the client's state file. Empty: none.
	State string `json:"state,omitempty"`

	// With Reject and Accept: the key of an object. The application returns an error for each change of
	// it, from Reject until Accept.
	Key string `json:"key,omitempty"`
}

// Commands.
const (
	Watch    = "watch"    // follow a resource
	Stop     = "stop"     // end the watch; answered by Stopped
	Pause    = "pause"    // the application takes no further changes until Continue
	Continue = "continue" // the application goes on
	Reject   = "reject"   // the application rejects changes of an object until Accept
	Accept   = "accept"   // the application accepts them again
)

// Line is a line of standard output.
type Line struct {
	// Name is the name of the watch.
	Name string `json:"name"`

	// What is State, Synced, Stale, Handler, Failed, Stopped, Damaged or Done.
	What string `json:"what"`

	// With State: the position of the copy.
	Epoch string `json:"epoch,omitempty"`

	// With State, and with Handler, where it is the revision of the object.
	Revision int64 `json:"revision,string,omitempty"`

	// With State: each object by its key. An object without a value is nil.
	Objects map[string]*Object `json:"objects,omitempty"`

	// With Stale: whether the copy may be out of date.
	Stale bool `json:"stale,omitempty"`

	// With Handler: the change, which is Add, Update or Delete, the key of the object, and whether the
	// application has rejected it.
	Type     string `json:"type,omitempty"`
	Key      string `json:"key,omitempty"`
	Rejected bool   `json:"rejected,omitempty"`

	// With Failed: the code and the reason of the error. The code has the name of the protocol, such as
	// PERMISSION_DENIED.
	Code   string `json:"code,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// What lines say.
const (
	State   = "state"   // the complete copy has changed, or its position has
	Synced  = "synced"  // waiting for the sync of an informer has ended
	Stale   = "stale"   // the copy of an informer has become stale, or is not stale any more
	Handler = "handler" // the handler of an informer was called
	Failed  = "failed"  // the watch has ended with an error and is not tried again
	Stopped = "stopped" // the watch has ended after Stop
	Damaged = "damaged" // the state file cannot be used
	Done    = "done"    // the test client has obeyed Pause, Continue, Reject or Accept
)

// Changes for which a handler is called.
const (
	Add    = "add"
	Update = "update"
	Delete = "delete"
)
