package e2e

import (
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/kept"
)

// validateWatchers validates the recording of every watcher, and keeps the wrong
// ones.
func (w *scenario) validateWatchers(t *testing.T, truth *check.Truth) {
	t.Helper()
	wrong := 0
	dir := ""
	for _, watcher := range w.watchers {
		err := check.Validate(&watcher.history, truth)
		if err == nil {
			continue
		}
		wrong++
		// One fault usually affects many watchers, so a few reports are enough.
		if wrong <= 3 {
			t.Error(err)
		}
		if dir == "" {
			dir = kept.Dir(t)
			write(t, dir, "truth.txt", truth.Print)
		}
		write(t, dir, fileName(watcher.name), watcher.history.Print)
	}
	if wrong > 0 {
		t.Errorf("%d of %d watchers saw something wrong", wrong, len(w.watchers))
	}
}

// validateReaders validates the answers to all reads.
func (w *scenario) validateReaders(t *testing.T, truth *check.Truth) {
	t.Helper()
	wrong := 0
	for _, reader := range w.readers {
		for i := range reader.reads {
			err := check.Consistent(&reader.reads[i], truth)
			if err == nil {
				continue
			}
			if wrong++; wrong <= 3 {
				t.Error(err)
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d reads were wrong", wrong)
		write(t, kept.Dir(t), "truth.txt", func(out io.Writer) error { return truth.Print(out) })
	}
}

// bookmarksDue returns about how many bookmarks the watchers should have received: one
// for each interval without another message and without an outage.
func (w *scenario) bookmarksDue(truth *check.Truth) int {
	due := 0
	for _, watcher := range w.watchers {
		h := &watcher.history
		for i := range h.Streams {
			s := &h.Streams[i]
			if h.Bookmarks == 0 || len(s.Messages) == 0 || s.Opened.IsZero() {
				continue
			}
			last := s.Messages[0].At
			quiet := func(until time.Time) {
				if !disturbed(last, until, truth.Outages) && !disturbed(last, until, s.Away) {
					due += int(until.Sub(last) / h.Bookmarks)
				}
				last = until
			}
			for j := range s.Messages {
				quiet(s.Messages[j].At)
			}
			quiet(s.Ended)
		}
	}
	return due
}

// finalBookmarks returns how many streams reached the deadline of their call without an
// outage, and how many of them received a bookmark shortly before. It ignores streams with a
// bookmark interval.
//
// The server counts the time from when it gets the request, and sends the final bookmark when a
// tenth of the time is left. So the bookmark is not due if the machine was so busy that a request
// and a message may have taken this tenth.
func (w *scenario) finalBookmarks(truth *check.Truth) (due, came int) {
	for _, watcher := range w.watchers {
		h := &watcher.history
		for i := range h.Streams {
			s := &h.Streams[i]
			if s.End != endAtDeadline || h.Bookmarks > 0 || len(s.Messages) == 0 || disturbed(s.Opened, s.Ended, truth.Outages) || disturbed(s.Opened, s.Ended, s.Away) {
				continue
			}
			delay := max(s.Messages[0].At.Sub(s.Opened), w.latencyProbe.slowestWithin(s.Opened, s.Ended))
			if 2*delay > watcher.deadline/10 {
				continue
			}
			due++
			isFinal := func(m check.Message) bool {
				return m.Kind == object.Bookmark && m.At.Sub(s.Opened) > watcher.deadline*8/10
			}
			if slices.ContainsFunc(s.Messages, isFinal) { // events may follow it
				came++
			}
		}
	}
	return due, came
}

// disturbed reports whether one of the spans overlaps or touches the time between from
// and to.
func disturbed(from, to time.Time, spans []check.Span) bool {
	const aftermath = time.Second
	for _, s := range spans {
		if s.From.Before(to) && s.To.Add(aftermath).After(from) {
			return true
		}
	}
	return false
}

// fileName returns the file name of an actor's recording.
func fileName(actor string) string { return strings.ReplaceAll(actor, " ", "-") + ".txt" }
