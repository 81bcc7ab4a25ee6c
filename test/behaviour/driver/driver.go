// Package driver is the protocol between the tests and the program of each client. A program reads commands from
// standard input and writes lines to standard output, one JSON value in each line. It begins commands in the order in
// which it reads them, and does not wait for one before it begins the next. It ends when its input ends.
package driver

// Command is a line of standard input.
type Command struct {
	// ID is in the answer. Each command has another one.
	ID int `json:"id"`

	// Do is the name of the command.
	Do string `json:"do"`

	// Client is the name of a client that [NewClient] has made.
	Client string `json:"client,omitempty"`

	// Name is the name of a watch or an informer.
	Name string `json:"name,omitempty"`

	// With NewClient.
	Servers    []string `json:"servers,omitempty"`
	Insecure   bool     `json:"insecure,omitempty"`
	CA         string   `json:"ca,omitempty"`   // file of the authority; it means a TLS option
	Cert       string   `json:"cert,omitempty"` // file of the client certificate, read for each connection
	PrivateKey string   `json:"privateKey,omitempty"`
	Token      string   `json:"token,omitempty"`     // never changes
	TokenFile  string   `json:"tokenFile,omitempty"` // read for each request

	// With requests. A watch or informer has Prefix.
	Key         string            `json:"key,omitempty"`
	Prefix      string            `json:"prefix,omitempty"`
	Value       string            `json:"value,omitempty"`
	Odd         string            `json:"odd,omitempty"`    // with Put: a value of the language instead of Value
	Labels      map[string]string `json:"labels,omitempty"` // with Put, and what the function of Update returns
	ContentType string            `json:"contentType,omitempty"`
	PageSize    int               `json:"pageSize,omitempty"`
	Message     string            `json:"message,omitempty"`    // why the program writes
	Skip        bool              `json:"skip,omitempty"`       // skip the validation
	LastChange  bool              `json:"lastChange,omitempty"` // with Get
	Values      bool              `json:"values,omitempty"`     // with History
	Time        string            `json:"time,omitempty"`       // with RevisionAt, and where History begins
	UpTo        int64             `json:"upTo,omitempty"`       // where History begins
	Millis      int               `json:"millis,omitempty"`     // the timeout; 0: none is given

	// With Watch and Informer. Revision and Epoch are the position to begin after.
	BookmarkMillis int    `json:"bookmarkMillis,omitempty"`
	Epoch          string `json:"epoch,omitempty"`
	Revision       int64  `json:"revision,omitempty"`
	FromNow        bool   `json:"fromNow,omitempty"`
	MinRevision    int64  `json:"minRevision,omitempty"`
	AtRevision     int64  `json:"atRevision,omitempty"`
	EveryEvent     bool   `json:"everyEvent,omitempty"`

	// With Informer, whose decoder accepts JSON. Callbacks are what its callbacks do, and Does with Handler what a
	// handler does.
	State     string            `json:"state,omitempty"`   // the state file
	Stopped   bool              `json:"stopped,omitempty"` // do not start the informer
	Callbacks map[string]string `json:"callbacks,omitempty"`
	Does      string            `json:"does,omitempty"`
	Handler   string            `json:"handler,omitempty"` // its name
	Times     int               `json:"times,omitempty"`   // with Throw: how often for each object; 0: always

	// With Step.
	Seconds float64 `json:"seconds,omitempty"`
}

// Commands. Each is answered when it has ended.
const (
	NewClient   = "client"
	Get         = "get"
	List        = "list"
	Count       = "count"
	History     = "history"
	RevisionAt  = "revision-at"
	Put         = "put"
	Validate    = "validate"
	Delete      = "delete"
	Transact    = "transact" // puts Key
	Update      = "update"   // the function returns Value, with Labels and ContentType if they are given
	Watch       = "watch"    // answered when it was opened
	Informer    = "informer" // makes and starts an informer
	Start       = "start"
	AddHandler  = "handler"
	WaitForSync = "sync"
	State       = "state"
	Close       = "close" // closes the watch or informer with Name, else the client
	Step        = "step"  // moves the wall clock of the program
)

// What handlers and callbacks can do besides writing a line. The callbacks are "decode", "interruption", "invalid" and
// "sync"; a client that has no such callback ignores it.
const (
	Throw       = "throw"  // fail as the language does: an exception, or an error that is returned
	Exit        = "exit"   // leave in the rudest way of the language that does not end the process
	Cancel      = "cancel" // cancel itself, or what it waits for
	Hang        = "hang"   // never return, also after the signal, for which the program writes a line
	CloseItself = "close"  // close the informer or watch
	CloseClient = "close-client"
)

// Line is a line of standard output.
type Line struct {
	// ID is the ID of the command that the line answers. 0: the line is about the watch or informer with Name.
	ID   int    `json:"id,omitempty"`
	Name string `json:"name,omitempty"`

	// What is the kind of a line without ID: Updated, Interrupted, Ended, Called, Invalid, Warned or Signalled.
	What string `json:"what,omitempty"`

	// Code is the name of the code of an error: that of gRPC, Closed or Refused. Empty: there is no error.
	Code    string `json:"code,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`

	// With answers.
	Object *Object  `json:"object,omitempty"`
	Keys   []string `json:"keys,omitempty"`
	Count  int      `json:"count,omitempty"`

	// With answers to History, to RevisionAt (Revision), and to Get with LastChange, which has one entry or none.
	Entries []Entry `json:"entries,omitempty"`

	// With an error: what is wrong with an invalid request, as FIELD: DESCRIPTION.
	Violations []string `json:"violations,omitempty"`

	// With the answer to State.
	Objects map[string]Object `json:"objects,omitempty"`
	Stale   bool              `json:"stale,omitempty"`

	// With Updated.
	Replace  bool   `json:"replace,omitempty"`
	Epoch    string `json:"epoch,omitempty"`
	Revision int64  `json:"revision,omitempty"`

	// With Called and Invalid; Keys has the keys of an update.
	Handler string `json:"handler,omitempty"`
	Type    string `json:"type,omitempty"` // added, modified or deleted
	Key     string `json:"key,omitempty"`
}

// Entry is an entry of a history, or a last change.
type Entry struct {
	Kind     string  `json:"kind,omitempty"`
	Key      string  `json:"key,omitempty"`
	Revision int64   `json:"revision,omitempty"`
	Author   string  `json:"author,omitempty"`
	Time     string  `json:"time,omitempty"` // as in RFC 3339
	Message  string  `json:"message,omitempty"`
	Replaced int64   `json:"replaced,omitempty"`
	Writes   int     `json:"writes,omitempty"` // of the transaction
	HasTTL   bool    `json:"hasTTL,omitempty"`
	Object   *Object `json:"object,omitempty"`
}

// Object is an object.
type Object struct {
	Value       string            `json:"value,omitempty"` // empty if it has more than 1,000 bytes
	Bytes       int               `json:"bytes,omitempty"`
	ContentType string            `json:"contentType,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	HasTTL      bool              `json:"hasTTL,omitempty"`
	Invalid     bool              `json:"invalid,omitempty"` // of an item of an informer
}

// The codes of errors that do not come from gRPC.
const (
	Closed  = "CLOSED"  // the client, the watch or the informer was closed
	Refused = "REFUSED" // the client does not accept the arguments, or any other error
)

// The kinds of lines without ID.
const (
	Updated     = "updated"
	Interrupted = "interrupted"
	Ended       = "ended"
	Called      = "called"
	Invalid     = "invalid"
	Warned      = "warned" // about the state file
	Signalled   = "signalled"
)
