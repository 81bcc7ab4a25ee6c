package capacity

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
)

//go:embed constants.json
var defaultConstants []byte

// Constant is a measured cost on one machine.
type Constant struct {
	Value    float64 `json:"value"`
	Unit     string  `json:"unit"`
	What     string  `json:"what"`
	Command  string  `json:"command"`  // the command that measures it
	Measured bool    `json:"measured"` // the value was measured with that command
	From     string  `json:"from"`     // the source of the value if it was not measured
}

// Constants are the inputs of this package, besides the settings of fanoutd and assumptions
// about watchers.
type Constants struct {
	DeliveryAlone    Constant `json:"delivery_alone"`    // µs
	DeliveryTogether Constant `json:"delivery_together"` // µs, with together watches per connection
	BurstAlone       Constant `json:"burst_alone"`       // µs
	BurstTogether    Constant `json:"burst_together"`    // µs
	Connect          Constant `json:"connect"`           // µs
	Handshake        Constant `json:"handshake"`         // µs
	Watch            Constant `json:"watch"`             // µs
	Snapshot         Constant `json:"snapshot"`          // µs per MiB
	ConnectionMemory Constant `json:"connection_memory"` // KiB
	WatchMemory      Constant `json:"watch_memory"`      // KiB
	TLSMemory        Constant `json:"tls_memory"`        // KiB
	ServerMemory     Constant `json:"server_memory"`     // MiB
	ObjectMemory     Constant `json:"object_memory"`     // times
	SmallObject      Constant `json:"small_object"`      // bytes
	LoadRate         Constant `json:"load_rate"`         // MiB per second
	EtcdDelivery     Constant `json:"etcd_delivery"`     // µs
	EtcdDeliveries   Constant `json:"etcd_deliveries"`   // per second
}

// together is the number of watches per connection of the constants for shared connections.
const together = 100

// DefaultConstants returns the constants of docs/dev/capacity.md.
func DefaultConstants() Constants {
	c, err := parse(defaultConstants)
	if err != nil {
		panic(err) // a test covers this
	}
	return c
}

// ReadConstants reads a file of constants.
func ReadConstants(path string) (Constants, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return Constants{}, fmt.Errorf("read constants: %w", err)
	}
	c, err := parse(b)
	if err != nil {
		return Constants{}, fmt.Errorf("constants of %s: %w", path, err)
	}
	return c, nil
}

func parse(b []byte) (Constants, error) {
	var c Constants
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&c); err != nil {
		return Constants{}, err
	}
	for name, one := range c.all {
		switch {
		case !(one.Value > 0) || math.IsInf(one.Value, 1):
			return Constants{}, fmt.Errorf("%s is %v, want more than 0", name, one.Value)
		case one.Unit == "" || one.What == "" || one.Command == "":
			return Constants{}, fmt.Errorf("%s needs a unit, a command and a description", name)
		case one.Measured == (one.From != ""):
			return Constants{}, fmt.Errorf("%s must either be measured or name its source", name)
		}
	}
	if c.DeliveryTogether.Value > c.DeliveryAlone.Value || c.BurstTogether.Value > c.BurstAlone.Value {
		return Constants{}, errors.New("a delivery on a shared connection costs more than one on a connection of its own")
	}
	return c, nil
}

// all yields the constants by their names in the file, in order.
func (c *Constants) all(yield func(string, Constant) bool) {
	v := reflect.ValueOf(*c)
	for i := range v.NumField() {
		if !yield(v.Type().Field(i).Tag.Get("json"), v.Field(i).Interface().(Constant)) {
			return
		}
	}
}

// deliveryCPU returns the CPU time to deliver one event, in seconds. It consists of a part
// for the connection, which its watches share, and a part for the watch.
func (c *Constants) deliveryCPU(perConnection int) float64 {
	return perWatch(c.DeliveryAlone.Value, c.DeliveryTogether.Value, perConnection)
}

// burstCPU is deliveryCPU for each of several events that are delivered at once.
func (c *Constants) burstCPU(perConnection int) float64 {
	return perWatch(c.BurstAlone.Value, c.BurstTogether.Value, perConnection)
}

// perWatch interpolates a cost per watch between one watch and together watches on a
// connection. The costs are in microseconds, the result is in seconds.
func perWatch(alone, many float64, perConnection int) float64 {
	connection := (alone - many) * together / (together - 1)
	return (connection/float64(perConnection) + alone - connection) / 1e6
}
