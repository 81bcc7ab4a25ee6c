package document

import (
	"errors"
	"fmt"
	"time"

	"github.com/fanoutd/fanoutd/client"
)

// Operation is an operation of a transaction in a file. Exactly one of Put, Delete and Check is set, to
// a key.
type Operation struct {
	Put    string `json:"put,omitempty"`
	Delete string `json:"delete,omitempty"`
	Check  string `json:"check,omitempty"`

	Content        // of a put
	TTL     string `json:"ttl,omitempty"` // such as 30s
	KeepTTL bool   `json:"keepTtl,omitempty"`

	// OverwriteOpaque makes a put replace a value that the server cannot decode.
	OverwriteOpaque bool `json:"overwriteOpaque,omitempty"`

	// The precondition. A check requires one.
	IfRevision *int64 `json:"ifRevision,omitempty"`
	IfAbsent   bool   `json:"ifAbsent,omitempty"`
}

// Operations reads the operations of a text: YAML or JSON, as one list or one after the other.
func Operations(name string, text []byte, format Format) ([]Operation, error) {
	return records(name, text, format, func(o *Operation, t tree) error { return o.readAt(name + " " + t.place) })
}

// Kind returns put, delete or check.
func (o *Operation) Kind() string {
	switch {
	case o.Put != "":
		return "put"
	case o.Delete != "":
		return "delete"
	}
	return "check"
}

// Key returns the key of the object.
func (o *Operation) Key() string { return o.Put + o.Delete + o.Check }

// readAt validates an operation that was read.
func (o *Operation) readAt(string) error {
	keys := 0
	for _, key := range []string{o.Put, o.Delete, o.Check} {
		if key != "" {
			keys++
		}
	}
	if keys != 1 {
		return errors.New("an operation needs the key of exactly one of put, delete and check")
	}
	ttl, err := o.ttl()
	conditional := o.IfRevision != nil || o.IfAbsent
	switch {
	case err != nil:
		return err
	case o.values() > 1:
		return fmt.Errorf("%s %q has more than one of value, text and data", o.Kind(), o.Key())
	case o.Put == "" && (o.ContentType != "" || o.Labels != nil || o.values() > 0 || o.TTL != "" || o.KeepTTL):
		return fmt.Errorf("%s %q cannot have a value, labels or a time to live", o.Kind(), o.Key())
	case o.Put == "" && o.OverwriteOpaque:
		return fmt.Errorf("%s %q cannot have overwriteOpaque", o.Kind(), o.Key())
	case o.Put != "" && o.values() == 0:
		return fmt.Errorf(`put %q needs value, text or data; use text: "" for an empty value`, o.Put)
	case ttl != 0 && o.KeepTTL:
		return fmt.Errorf("put %q has both ttl and keepTtl", o.Put)
	case o.IfRevision != nil && (o.IfAbsent || *o.IfRevision < 1):
		return fmt.Errorf("%s %q needs an ifRevision of at least 1, or ifAbsent", o.Kind(), o.Key())
	case o.IfAbsent && o.Delete != "":
		return fmt.Errorf("delete %q cannot have ifAbsent", o.Delete)
	case o.Check != "" && !conditional:
		return fmt.Errorf("check %q needs ifRevision or ifAbsent", o.Check)
	}
	return nil
}

func (o *Operation) ttl() (time.Duration, error) {
	if o.TTL == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(o.TTL)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%s %q has an invalid ttl %q (want a duration such as 30s)", o.Kind(), o.Key(), o.TTL)
	}
	return d, nil
}

// Op returns the operation for the client.
func (o *Operation) Op() client.Op {
	revision := int64(0)
	if o.IfRevision != nil {
		revision = *o.IfRevision
	}
	conditional := o.IfRevision != nil || o.IfAbsent
	switch o.Kind() {
	case "check":
		return client.OpCheck(o.Check, revision)
	case "delete":
		if conditional {
			return client.OpDelete(o.Delete, client.IfRevision(revision))
		}
		return client.OpDelete(o.Delete)
	}
	var opts []client.WriteOption
	if conditional {
		opts = append(opts, client.IfRevision(revision))
	}
	if ttl, err := o.ttl(); err == nil && ttl > 0 {
		opts = append(opts, client.TTL(ttl))
	}
	if o.KeepTTL {
		opts = append(opts, client.KeepTTL())
	}
	if o.OverwriteOpaque {
		opts = append(opts, client.OverwriteOpaque())
	}
	v := client.Bytes(o.Bytes())
	if o.Text != nil {
		v = client.Text(*o.Text)
	}
	return client.OpPut(o.Put, v.WithContentType(o.Type()).WithLabels(o.Labels), opts...)
}
