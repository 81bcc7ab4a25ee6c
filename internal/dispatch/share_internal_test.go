package dispatch

import (
	"reflect"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Watches with different options share no cursor, also if an option is added.
func TestAllOptionsArePartOfTheShareKey(t *testing.T) {
	ofStream := map[string]string{"LastBookmark": "the watches of a stream have that of the stream"}
	s := &Stream{}
	for i := range reflect.TypeFor[Options]().NumField() {
		name := reflect.TypeFor[Options]().Field(i).Name
		o := Options{BookmarkInterval: time.Minute}
		switch f := reflect.ValueOf(&o).Elem().Field(i); f.Interface().(type) {
		case bool:
			f.SetBool(true)
		case time.Duration:
			f.SetInt(int64(time.Second))
		case time.Time:
			f.Set(reflect.ValueOf(time.Now()))
		default:
			t.Fatalf("the test has no value for %s", name)
		}
		if _, shared := ofStream[name]; shared != (keyOf(s, &o) == keyOf(s, &Options{BookmarkInterval: time.Minute})) {
			t.Errorf("two watches that differ in %s share a cursor: %v, want %v", name, !shared, shared)
		}
		c := newCursor(s, &StreamWatch{}, &o)
		c.Reader = catchup.NewReader(nil, catchup.FromNow(object.Position{}), o.Latest, o.EveryEvent)
		if c.shareKey() != keyOf(s, &o) {
			t.Errorf("%s: a cursor has the key %+v, its watch %+v", name, c.shareKey(), keyOf(s, &o))
		}
	}
}
