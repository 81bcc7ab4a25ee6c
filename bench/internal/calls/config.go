package calls

import (
	"fmt"
	"slices"
	"strings"
)

// The values of Config.Method.
const (
	MethodPut    = "Put"     // replaces a value, without a precondition
	MethodGet    = "Get"     // a linearizable read of a key
	MethodGetAny = "Get any" // a read that may be old; of etcd: a serializable read
	MethodEmpty  = "empty"   // a handler that does nothing
)

// Methods lists the values of Config.Method.
var Methods = []string{MethodPut, MethodGet, MethodGetAny, MethodEmpty}

// Config describes the calls of a process.
type Config struct {
	Protocol    string `json:"protocol"`
	Address     string `json:"address"` // host and port
	Method      string `json:"method"`  // one of Methods
	Connections int    `json:"connections"`
	InFlight    int    `json:"in_flight"` // calls at once, on all connections
	Keys        int    `json:"keys"`      // the calls take turns on them
	ValueSize   int    `json:"value_size"`
}

// Validate returns what is wrong with the configuration.
func (c Config) Validate() error {
	switch {
	case !slices.Contains(Methods, c.Method):
		return fmt.Errorf("unknown method %q (want one of %s)", c.Method, strings.Join(Methods, ", "))
	case c.Connections < 1 || c.InFlight < c.Connections:
		return fmt.Errorf("%d calls at once on %d connections: each connection needs at least one", c.InFlight, c.Connections)
	case c.Keys < 1:
		return fmt.Errorf("%d keys: want at least 1", c.Keys)
	}
	_, err := c.connector()
	return err
}

// share returns the number of calls in flight on a connection.
func (c Config) share(connection int) int {
	return (connection+1)*c.InFlight/c.Connections - connection*c.InFlight/c.Connections
}

// connector returns the function that connects to the server.
func (c Config) connector() (connector, error) {
	if c.Protocol == "nats-kv" && (c.Method == MethodPut || c.Method == MethodGet) {
		return dialNATS, nil
	}
	if method, ok := methods[c.Protocol][c.Method]; ok {
		return method.dial, nil
	}
	return nil, fmt.Errorf("%s has no method %q", c.Protocol, c.Method)
}
