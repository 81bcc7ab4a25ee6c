package store

import "github.com/fanoutd/fanoutd/internal/object"

// Cipher says what is stored for a value. All keys are whole keys of etcd. Its methods
// may be called from any goroutine.
type Cipher interface {
	// Seal returns what is to be stored under a key for a value.
	Seal(etcdKey string, value []byte) (stored []byte, err error)

	// Open returns the value of what is stored under a key. Both may share memory with
	// what they are given.
	Open(etcdKey string, stored []byte) (value []byte, err *object.UndecryptableError)

	// Fresh reports whether something is stored as Seal would do it today.
	Fresh(stored []byte) bool
}

// plain stores values as they are.
type plain struct{}

func (plain) Seal(_ string, value []byte) ([]byte, error) { return value, nil }

func (plain) Open(_ string, stored []byte) ([]byte, *object.UndecryptableError) { return stored, nil }

func (plain) Fresh([]byte) bool { return true }

// seal returns what is to be stored for each operation that is a put.
func (c *Collection) seal(ops []object.Op) ([][]byte, error) {
	stored := make([][]byte, len(ops))
	for i, op := range ops {
		if op.Kind != object.OpPut {
			continue
		}
		var err error
		if stored[i], err = c.cipher.Seal(c.prefix+string(op.Key), op.Value); err != nil {
			return nil, err
		}
	}
	return stored, nil
}
