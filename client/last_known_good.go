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

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"github.com/fanoutd/fanoutd/client/localfile"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// LastKnownGood keeps the state in a file, so that a program can start while no server
// can be reached. The informer begins with the saved state, which is stale until a
// server confirms it, and resumes at its position. The file is replaced as a whole,
// some seconds after a change and when Run ends. Each informer needs a file of its own.
//
// If the path is that of a device, a named pipe or a folder, Run fails at once. A symbolic link stays;
// the file to which it leads is replaced.
//
// A state of more than maxBytes is not saved. A file that is larger, damaged, or of
// other objects is not used. Handlers get such failures as an Error without an object,
// and the informer goes on without the file.
//
// The file contains the values in plain text, secrets included. It is created with mode
// 0600; a file that is replaced keeps its mode, owner and group.
func LastKnownGood(path string, maxBytes int64) InformerOption {
	return informerOption(func(c *informerConfig) { c.file = &stateFile{path, maxBytes} })
}

// stateFile is a file with a saved state. It consists of
//
//   - the line stateFileMagic;
//   - the WatchRequest whose state it is, with the position of the state;
//   - the objects; if the newest version of an object cannot be decoded, the last
//     decoded version comes before it;
//   - the SHA-256 of all that.
//
// The length of each message precedes it.
type stateFile struct {
	path     string
	maxBytes int64
}

// stateFileMagic is the first line of the file. The number is the version of the
// format.
const stateFileMagic = "fanoutd last known good 1\n"

var errDamaged = errors.New("the file is damaged")

// check returns an error if the path can never be that of a saved state. Other failures are reported
// when they happen.
func (f *stateFile) check() error {
	if f == nil {
		return nil
	}
	if refused, ok := errors.AsType[*localfile.NotRegularError](localfile.Check(f.path)); ok {
		return fmt.Errorf("cannot save a state: %w", refused)
	}
	return nil
}

// read returns the saved objects of a watch and their position. The position is zero if
// there is no file.
func (f *stateFile) read(watch *fanoutv1.WatchRequest) (Position, []*Object, error) {
	content, err := f.content()
	if err != nil || content == nil {
		return Position{}, nil, err
	}
	rest, ok := bytes.CutPrefix(content, []byte(stateFileMagic))
	if !ok {
		return Position{}, nil, errors.New("the file is of another kind")
	}
	body := len(rest) - sha256.Size
	if body < 0 || sha256.Sum256(content[:len(content)-sha256.Size]) != [sha256.Size]byte(rest[body:]) {
		return Position{}, nil, errDamaged
	}
	from := bytes.NewReader(rest[:body])
	unlimited := protodelim.UnmarshalOptions{MaxSize: -1}
	saved := &fanoutv1.WatchRequest{}
	if err := unlimited.UnmarshalFrom(from, saved); err != nil {
		return Position{}, nil, fmt.Errorf("%w: %w", errDamaged, err)
	}
	at := positionOf(saved.GetAfter())
	if saved.Begin = nil; !proto.Equal(saved, watch) {
		return Position{}, nil, errors.New("the file has the state of another watch")
	}
	var objects []*Object
	for {
		o := &fanoutv1.Object{}
		err := unlimited.UnmarshalFrom(from, o)
		if errors.Is(err, io.EOF) {
			return at, objects, nil
		} else if err != nil {
			return Position{}, nil, fmt.Errorf("%w: %w", errDamaged, err)
		}
		objects = append(objects, objectOf(o))
	}
}

// content returns the content of the file, or nil if there is no file.
func (f *stateFile) content() ([]byte, error) {
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer file.Close()
	// One byte more than allowed shows that the file is too large. For the largest
	// limit, which has no successor, no file is.
	content, err := io.ReadAll(io.LimitReader(file, max(f.maxBytes, f.maxBytes+1)))
	if err == nil && int64(len(content)) > f.maxBytes {
		err = fmt.Errorf("the file is larger than %d bytes", f.maxBytes)
	}
	return content, err
}

// write replaces the file.
func (f *stateFile) write(watch *fanoutv1.WatchRequest, at Position, objects func(yield func(*Object) bool)) error {
	content := bytes.NewBufferString(stateFileMagic)
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
			return fmt.Errorf("the state is larger than %d bytes", f.maxBytes)
		}
	}
	sum := sha256.Sum256(content.Bytes())
	content.Write(sum[:])
	return localfile.Replace(f.path, content.Bytes(), 0o600)
}

// messageOf is the inverse of objectOf, except that it stores text as data.
func messageOf(o *Object) *fanoutv1.Object {
	m := &fanoutv1.Object{
		Key: o.Key, ContentType: o.ContentType, Labels: o.Labels, Opaque: o.Opaque,
		CreateRevision: o.CreateRevision, Version: o.Version, ModRevision: o.ModRevision, HasTtl: o.HasTTL,
	}
	if o.Value != nil {
		m.Value = &fanoutv1.Object_Data{Data: o.Value}
	}
	return m
}

// The least time between two writes of the file. positionInterval applies if only the
// position has changed.
const (
	saveInterval     = 5 * time.Second
	positionInterval = 5 * time.Minute
)

// saver saves the states of an informer. It has a goroutine of its own, so that a slow
// disk does not delay the informer.
type saver[T any] struct {
	informer *Informer[T]
	file     *stateFile // nil: nothing is saved
	watch    *fanoutv1.WatchRequest

	loaded []*Object // of the file, those that were not published yet

	// What the file contains. The goroutine of the saver owns these fields; load uses
	// them before it starts, and stop after it has ended.
	saved   Position
	writes  int
	savedAt time.Time
	failing bool // the latest attempt to save failed

	changed  chan struct{} // buffers one signal
	failures chan error    // buffers one error
	stopped  chan struct{} // closed by stop
	running  sync.WaitGroup
}

// newSaver returns the saver of an informer, and the objects of the saved state, if there is one. The
// saver does nothing until it has started.
func (i *Informer[T]) newSaver() (*saver[T], *objectState) {
	s, saved := &saver[T]{informer: i, file: i.config.file}, &objectState{}
	if s.file == nil {
		return s, saved
	}
	s.watch = i.resource.newWatcher(i.config.watch).identity()
	s.changed, s.failures, s.stopped = make(chan struct{}, 1), make(chan error, 1), make(chan struct{})
	localfile.RemoveTemporaries(s.file.path)
	at, objects, err := s.file.read(s.watch)
	switch {
	case err != nil:
		i.reportFile(fmt.Errorf("cannot use the saved state in %s: %w", s.file.path, err))
	case at.Revision > 0:
		s.saved, s.loaded, saved.at = at, objects, at
		for _, o := range objects {
			saved.objects.Set(o.Key, o)
		}
	}
	return s, saved
}

// load publishes the saved state. Of an object that cannot be decoded, the file does not say since when. So
// the last position at which it was applied is unknown, and reports have none until it can be decoded.
func (s *saver[T]) load() {
	next := s.informer.next
	for ; len(s.loaded) > 0; s.loaded = s.loaded[1:] {
		o := s.loaded[0]
		next.put(o.Key, s.informer.entryOf(o, next.get(o.Key), 0))
	}
	next.position = s.saved
	s.writes, s.savedAt = next.writes, time.Now()
	whole := &step[*entry[T]]{to: s.saved, synced: true}
	next.entries.Scan(func(_ string, e *entry[T]) bool {
		c := change[*entry[T]]{new: e}
		if e.invalid != nil {
			c.since = e.before + 1
		}
		whole.changes = append(whole.changes, c)
		return true
	})
	s.informer.publish(whole)
}

// start loads the saved state, if there is one, and starts to save new ones.
func (s *saver[T]) start() {
	if s.file == nil {
		return
	}
	if s.saved.Revision > 0 {
		s.load()
	}
	s.running.Go(s.run)
}

// stateChanged wakes the goroutine of the saver.
func (s *saver[T]) stateChanged() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *saver[T]) run() {
	for {
		select {
		case <-s.stopped:
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
		// Spend at most a tenth of the time on saving.
		pause := time.NewTimer(max(saveInterval, 10*time.Since(began)))
		select {
		case <-s.stopped:
			pause.Stop()
			return
		case <-pause.C:
		}
	}
}

// save writes the state if the file does not have it. If only the position is new, it
// does so once the file is as old as positionAge. Of consecutive failures it returns
// the first.
func (s *saver[T]) save(positionAge time.Duration) error {
	st := s.informer.current.Load()
	if st.position == s.saved || st.position.Revision == 0 || st.writes == s.writes && time.Since(s.savedAt) < positionAge {
		return nil
	}
	err := s.file.write(s.watch, st.position, st.objects)
	repeated := err != nil && s.failing
	s.failing = err != nil
	if err == nil {
		s.saved, s.writes, s.savedAt = st.position, st.writes, time.Now()
	}
	if err == nil || repeated {
		return nil
	}
	return fmt.Errorf("cannot save the state in %s: %w", s.file.path, err)
}

// stop saves the last state and ends the goroutine of the saver.
func (s *saver[T]) stop() {
	if s.file == nil {
		return
	}
	close(s.stopped)
	s.running.Wait()
	if err := s.save(0); err != nil {
		s.informer.reportFile(err)
	}
}
