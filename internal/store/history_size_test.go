package store_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store"
)

// A transaction that etcd would refuse for its size is refused with the error that names the history, even
// if long keys take most of it.
func TestSizeOfAWriteIncludesItsKeys(t *testing.T) {
	e := embedded(t, store.EmbeddedConfig{})
	r := recordingIn(e.Store)
	for bytes := 2000; bytes <= 20_000; bytes += 500 {
		var ops []object.Op
		for i := range 42 {
			ops = append(ops, put(strings.Repeat("k", 1000)+fmt.Sprint(bytes, i), strings.Repeat("v", bytes)))
		}
		_, err := r.write(t, time.Now(), ops...)
		if _, ok := errors.AsType[*object.RecordTooLargeError](err); err != nil && !ok {
			t.Errorf("values of %d bytes: got %v", bytes, err)
		} else if bytes == 2000 && err != nil || bytes == 20_000 && err == nil {
			t.Errorf("values of %d bytes: got %v", bytes, err)
		}
	}
}
