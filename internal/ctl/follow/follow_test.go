package follow

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeWatch yields the updates that a test sends to it.
type fakeWatch chan *client.Update

func (w fakeWatch) updates(ctx context.Context) Stream {
	return func(yield func(*client.Update, error) bool) {
		for {
			select {
			case u := <-w:
				if !yield(u, nil) {
					return
				}
			case <-ctx.Done():
				yield(nil, context.Cause(ctx))
				return
			}
		}
	}
}

func added(key, text string, revision int64) client.Event {
	return client.Event{Type: client.Added, Revision: revision, Object: &client.Object{Key: key, Value: []byte(text), CreateRevision: 1, ModRevision: revision}}
}

// replace sends a new state.
func (w fakeWatch) replace(events ...client.Event) {
	w <- &client.Update{Phase: client.PhaseReset}
	w <- &client.Update{Phase: client.PhaseSynced, Events: events, Position: client.Position{Revision: 1}}
}

func live(events ...client.Event) *client.Update {
	return &client.Update{Phase: client.PhaseLive, Events: events, Position: client.Position{Revision: 2}}
}

// Nothing is written before the state is complete. A burst of changes is rendered once, and
// a part of a new state waits for the rest.
func TestRendererBatchesChangesAndKeepsTransactionsWhole(t *testing.T) {
	dir := t.TempDir()
	template, path := filepath.Join(dir, "template"), filepath.Join(dir, "file")
	if err := os.WriteFile(template, []byte(`{{range .Objects}}{{.Key}}={{.Text}} {{end}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := OpenTemplate(t.Context(), path, template)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		w := make(fakeWatch)
		var written []string
		r := Renderer{
			Files: []*TemplateFile{f}, Policy: Stop, Delay: time.Second, Report: func(err error) { t.Error(err) },
			Changed: func(context.Context, []string) error {
				text, err := os.ReadFile(path)
				written = append(written, string(text))
				return err
			},
		}
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx, w.updates) }()

		w <- &client.Update{Phase: client.PhaseReset, Events: []client.Event{added("a", "1", 1)}}
		synctest.Wait()
		time.Sleep(time.Hour)
		if len(written) > 0 {
			t.Errorf("an incomplete state was written: %q", written)
		}
		w <- &client.Update{Phase: client.PhaseSynced, Events: []client.Event{added("b", "1", 1)}}
		synctest.Wait() // the first state is rendered without a delay
		for i := range 100 {
			w <- live(added("a", strings.Repeat("x", i%3), int64(i+2)))
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		// Part of a new state.
		w <- &client.Update{Phase: client.PhaseReset, Events: []client.Event{added("a", "half", 200)}}
		time.Sleep(time.Hour)
		synctest.Wait()
		w <- &client.Update{Phase: client.PhaseSynced, Events: []client.Event{added("b", "whole", 200)}}
		time.Sleep(time.Second)
		synctest.Wait()
		// The same state again, as after an interruption.
		w.replace(added("a", "half", 200), added("b", "whole", 200))
		time.Sleep(time.Hour)
		synctest.Wait()
		if diff := cmp.Diff([]string{"a=1 b=1 ", "a= b=1 ", "a=half b=whole "}, written); diff != "" {
			t.Error(diff)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// Formats that do not mark a reset show the differences, including deletions. The others
// show everything again.
func TestPrinterShowsResetsAsDifferencesWhereTheFormatHasNoMark(t *testing.T) {
	for format, want := range map[output.Format]string{
		output.Table: "ADDED a\nADDED b\nADDED c\nDELETED a\nMODIFIED b\n",
		output.Key:   "a\nb\nc\na\nb\n",
		output.Value: "1\n2\n3\n4\n",
		output.JSONL: "RESET\nADDED a\nADDED b\nSYNCED\nADDED c\nRESET\nADDED b\nADDED c\nSYNCED\n",
	} {
		w := make(fakeWatch, 5)
		w.replace(added("a", "1", 1), added("b", "2", 2))
		w <- live(added("c", "3", 3))
		w <- &client.Update{Phase: client.PhaseReset, Events: []client.Event{added("b", "4", 5)}}
		w <- &client.Update{Phase: client.PhaseSynced, Events: []client.Event{added("c", "3", 3)}}
		ctx, cancel := context.WithCancel(t.Context())
		var out strings.Builder
		updates, events := 0, output.Printer{W: &out, Format: format}.Events()
		p := Follower{
			Differences: !output.MarksResets(format),
			Handle: func(u *client.Update) error {
				if updates++; updates == 5 {
					cancel()
				}
				return events.Show(u)
			},
		}
		if err := p.Run(ctx, w.updates); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if diff := cmp.Diff(want, summary(format, out.String())); diff != "" {
			t.Errorf("%s:\n%s", format, diff)
		}
	}
}

// The events of a DELTA are not every change. Formats for programs mark it; the others show
// what is different.
func TestPrinterMarksADelta(t *testing.T) {
	gone := func(key string) client.Event {
		return client.Event{Type: client.Deleted, Revision: 9, Object: &client.Object{Key: key}}
	}
	for format, want := range map[output.Format]string{
		output.Table: "ADDED a\nADDED b\nMODIFIED a\nDELETED b\n",
		output.Key:   "a\nb\na\nb\n",
		output.JSONL: "RESET\nADDED a\nADDED b\nSYNCED\nDELTA\nADDED a\nDELETED b\nDELETED never\nSYNCED\n",
	} {
		t.Run(string(format), func(t *testing.T) {
			w := make(fakeWatch, 3)
			w.replace(added("a", "1", 1), added("b", "2", 2))
			w <- &client.Update{Phase: client.PhaseSynced, Delta: true, Events: []client.Event{added("a", "3", 9), gone("b"), gone("never")}}
			ctx, cancel := context.WithCancel(t.Context())
			var out strings.Builder
			updates, events := 0, output.Printer{W: &out, Format: format}.Events()
			p := Follower{
				Differences: !output.MarksResets(format),
				Handle: func(u *client.Update) error {
					if updates++; updates == 3 {
						cancel()
					}
					return events.Show(u)
				},
			}
			if err := p.Run(ctx, w.updates); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			if diff := cmp.Diff(want, summary(format, out.String())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// summary returns the types and keys of printed events.
func summary(format output.Format, printed string) string {
	switch format {
	case output.Table:
		_, rows, _ := strings.Cut(ansi.Strip(printed), "\n")
		return regexp.MustCompile(`(?m)^(\w+) +(\w+) .*$`).ReplaceAllString(rows, "$1 $2")
	case output.JSONL:
		printed = regexp.MustCompile(`(?m)^.*"type":"(\w+)"(,"revision":\d+,"object":{"key":("(\w+)"))?.*$`).ReplaceAllString(printed, "$1 $4")
		return strings.ReplaceAll(printed, " \n", "\n")
	}
	return printed
}
