package client

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/natefinch/atomic"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// LastKnownGood keeps the state in a file, for starts while there is no server: the
// informer begins with the saved state, stale until a server confirms it, and goes
// on where it was saved. The file is replaced as a whole, some seconds after a
// change and when Run ends. It belongs to one informer.
//
// A state that takes more than maxBytes is not saved, and a file that is larger,
// damaged, or of another informer's objects is not used; handlers are told of it as
// an Error without an object, and the informer goes on without. What was written
// with secrets in it has them in the file. Only its owner can read that, unless it is
// given another mode, which it keeps.
func LastKnownGood(path string, maxBytes int64) InformerOption {
	return informerOption(func(i *informing) { i.save = &goodFile{path, maxBytes} })
}

// goodFile is the file. It consists of the magic line; the watch whose state it is,
// with its position; the objects, an older version before the newer one where that
// cannot be decoded; and the SHA-256 of all that. Messages have their length before
// them.
type goodFile struct {
	path     string
	maxBytes int64
}

// goodMagic is how the file begins. The number is that of the format.
const goodMagic = "fanoutd last known good 1\n"

// errDamaged says that a file is not as it was written.
var errDamaged = errors.New("it is damaged")

// read returns the saved objects of a watch and their position; neither if there is
// no file.
func (f *goodFile) read(watch *fanoutv1.WatchRequest) (Position, []*Object, error) {
	content, err := f.content()
	if err != nil || content == nil {
		return Position{}, nil, err
	}
	rest, ok := bytes.CutPrefix(content, []byte(goodMagic))
	if !ok {
		return Position{}, nil, errors.New("it is of another kind")
	}
	body := len(rest) - sha256.Size
	if body < 0 || sha256.Sum256(content[:len(content)-sha256.Size]) != [sha256.Size]byte(rest[body:]) {
		return Position{}, nil, errDamaged
	}
	from := bytes.NewReader(rest[:body])
	whole := protodelim.UnmarshalOptions{MaxSize: -1}
	saved := &fanoutv1.WatchRequest{}
	if err := whole.UnmarshalFrom(from, saved); err != nil {
		return Position{}, nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	at := positionOf(saved.GetAfter())
	if saved.Begin = nil; !proto.Equal(saved, watch) {
		return Position{}, nil, errors.New("it is of other objects")
	}
	var objects []*Object
	for {
		o := &fanoutv1.Object{}
		err := whole.UnmarshalFrom(from, o)
		if errors.Is(err, io.EOF) {
			return at, objects, nil
		} else if err != nil {
			return Position{}, nil, fmt.Errorf("%w: %w", errDamaged, err)
		}
		objects = append(objects, objectOf(o))
	}
}

// content returns what is in the file, nil if there is none.
func (f *goodFile) content() ([]byte, error) {
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer file.Close()
	// One byte more shows that there is more; beyond the largest number there is none.
	content, err := io.ReadAll(io.LimitReader(file, max(f.maxBytes, f.maxBytes+1)))
	if err == nil && int64(len(content)) > f.maxBytes {
		err = fmt.Errorf("it is larger than %d bytes", f.maxBytes)
	}
	return content, err
}

// write replaces the file.
func (f *goodFile) write(watch *fanoutv1.WatchRequest, at Position, objects func(yield func(*Object) bool)) error {
	content := bytes.NewBufferString(goodMagic)
	watch = proto.CloneOf(watch)
	watch.Begin = &fanoutv1.WatchRequest_After{After: &fanoutv1.Position{Epoch: at.Epoch, Revision: at.Revision}}
	if _, err := protodelim.MarshalTo(content, watch); err != nil {
		return fmt.Errorf("encode the watch: %w", err)
	}
	for o := range objects {
		if _, err := protodelim.MarshalTo(content, messageOf(o)); err != nil {
			return fmt.Errorf("encode %q: %w", o.Key, err)
		}
		if int64(content.Len()+sha256.Size) > f.maxBytes {
			return fmt.Errorf("the state takes more than %d bytes", f.maxBytes)
		}
	}
	sum := sha256.Sum256(content.Bytes())
	content.Write(sum[:])
	return atomic.WriteFile(f.path, content)
}

// messageOf is the reverse of objectOf, except that a text is no text.
func messageOf(o *Object) *fanoutv1.Object {
	m := &fanoutv1.Object{
		Key: o.Key, ContentType: o.ContentType, Labels: o.Labels, Opaque: o.Opaque,
		CreateRevision: o.CreateRevision, Version: o.Version, ModRevision: o.ModRevision,
	}
	if o.Value != nil {
		m.Value = &fanoutv1.Object_Data{Data: o.Value}
	}
	return m
}

// The file of the last known good state stays as it is for saveInterval at least,
// and for positionInterval if there is nothing new but the position.
const (
	saveInterval     = 5 * time.Second
	positionInterval = 5 * time.Minute
)

// saver saves the states of an informer in a goroutine of its own, so that a slow
// disk delays nobody.
type saver[T any] struct {
	informer *Informer[T]
	file     *goodFile // nil: nothing is saved
	watch    *fanoutv1.WatchRequest

	// What is in the file, and since when. These belong to the goroutine, and to
	// load and stop before and after it.
	saved  Position
	writes int
	since  time.Time
	failed bool // the last time

	changed  chan struct{} // has room for one
	failures chan error    // has room for one
	over     chan struct{} // closed by stop
	running  sync.WaitGroup
}

// startSaving begins with the state that was saved, if there is one.
func (i *Informer[T]) startSaving(r *replica[T]) *saver[T] {
	s := &saver[T]{informer: i, file: i.save}
	if s.file == nil {
		return s
	}
	s.watch = i.resource.newWatcher(i.informing.watch).identity()
	s.changed, s.failures, s.over = make(chan struct{}, 1), make(chan error, 1), make(chan struct{})
	i.introduce() // who is to hear of errors
	s.load(r)
	s.running.Go(s.run)
	return s
}

// load makes what is in the file the state.
func (s *saver[T]) load(r *replica[T]) {
	at, objects, err := s.file.read(s.watch)
	if err != nil {
		s.informer.report(nil, fmt.Errorf("%s is not used: %w", s.file.path, err))
		return
	}
	if at.Revision == 0 {
		return
	}
	u := &Update{Position: at, Complete: true}
	for _, o := range objects {
		u.Events = append(u.Events, Event{Type: Added, Object: o})
	}
	v, changes := r.take(u)
	s.saved, s.writes, s.since = at, v.writes, time.Now()
	s.informer.current.Store(v)
	s.informer.tell(changes)
	s.informer.reach(s.informer.ready)
}

// notice says that there may be a new state.
func (s *saver[T]) notice() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// run saves states until it is over.
func (s *saver[T]) run() {
	for {
		select {
		case <-s.over:
			return
		case <-s.changed:
		}
		began := time.Now()
		if err := s.save(positionInterval); err != nil {
			select {
			case s.failures <- err:
			default:
			}
		}
		// A state that takes long to save is saved less often.
		pause := time.NewTimer(max(saveInterval, 10*time.Since(began)))
		select {
		case <-s.over:
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}

// save writes the state if it is not in the file, or only its position is not, for
// so long. An error that lasts is returned once.
func (s *saver[T]) save(patience time.Duration) error {
	v := s.informer.current.Load()
	if v.position == s.saved || v.position.Revision == 0 || v.writes == s.writes && time.Since(s.since) < patience {
		return nil
	}
	err := s.file.write(s.watch, v.position, v.objects)
	again := err != nil && s.failed
	s.failed = err != nil
	if err == nil {
		s.saved, s.writes, s.since = v.position, v.writes, time.Now()
	}
	if err == nil || again {
		return nil
	}
	return fmt.Errorf("%s is not written: %w", s.file.path, err)
}

// stop saves the last state.
func (s *saver[T]) stop() {
	if s.file == nil {
		return
	}
	close(s.over)
	s.running.Wait()
	if err := s.save(0); err != nil {
		s.informer.report(nil, err)
	}
}

// objects returns what has to be saved to have this view again.
func (v *view[T]) objects(yield func(*Object) bool) {
	v.entries.Scan(func(_ string, e *entry[T]) bool {
		return (!e.good || e.item.Object == e.newest || yield(e.item.Object)) && yield(e.newest)
	})
}
