package behaviour

import (
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/fanoutd/fanoutd/conformance/script"
	"github.com/fanoutd/fanoutd/test/behaviour/driver"
)

// rules are those of the real server. They concern keys that only testValidation writes.
const rules = `
checks:
- keys: [validation-go/*, validation-python/*, validation-node/*]
  schema: {properties: {percent: {maximum: 100}}}
  rules:
  - {rule: "self != null", message: it stays, deletes: true}
`

func testHistory(s *scene) {
	a, b := s.prefix+"/a", s.prefix+"/b"
	f := s.front(func(r request) error {
		if r.method == "Put" && r.number == 2 {
			return script.Refusal(codes.FailedPrecondition, "PRECONDITION_FAILED")
		}
		return nil
	})
	p := s.start()
	p.connect(f.Address)
	p.must(driver.Command{Do: driver.Put, Key: a, Value: "1", Message: "put"})
	p.must(driver.Command{Do: driver.Update, Key: a, Value: "2", Message: "update"}) // at the second attempt
	p.must(driver.Command{Do: driver.Transact, Key: b, Value: "3", Message: "transact"})
	p.must(driver.Command{Do: driver.Put, Key: b, Value: "4"})
	p.must(driver.Command{Do: driver.Delete, Key: a, Message: "delete"})

	history := driver.Command{Do: driver.History, Prefix: s.prefix}
	lines := func(c driver.Command) (lines []string, entries []driver.Entry) {
		s.Helper()
		for _, e := range p.must(c).Entries {
			line := fmt.Sprintf("%s %s %q", e.Kind, e.Key, e.Message)
			if e.Object != nil {
				line += " " + e.Object.Value
			}
			lines = append(lines, line)
			entries = append(entries, e)
		}
		return lines, entries
	}
	want := []string{
		"delete " + a + ` "delete"`, "put " + b + ` "" 4`, "put " + b + ` "transact" 3`, "put " + a + ` "update" 2`, "put " + a + ` "put" 1`,
	}
	whole := history
	whole.Values = true
	got, entries := lines(whole)
	if !slices.Equal(got, want) || len(f.requests("History")) != 1 {
		s.Fatalf("got %q with %d requests, want %q with one", got, len(f.requests("History")), want)
	}
	whole.PageSize = 2
	if got, _ = lines(whole); !slices.Equal(got, want) || len(f.requests("History")) < 4 {
		s.Errorf("in pages: got %q with %d requests, want %q with three", got, len(f.requests("History"))-1, want)
	}
	first, second := entries[4], entries[3]
	if first.Author != "" || first.Replaced != 0 || first.Writes != 1 || first.HasTTL || second.Replaced != first.Revision {
		s.Errorf("got %+v and then %+v", first, second)
	}
	at, err := time.Parse(time.RFC3339Nano, first.Time)
	if err != nil {
		s.Fatal(err)
	}
	before := at.Add(-24 * time.Hour).Format(time.RFC3339Nano)

	upTo := history
	upTo.UpTo = first.Revision
	if got, _ = lines(upTo); !slices.Equal(got, []string{"put " + a + ` "put"`}) {
		s.Errorf("up to revision %d: got %q", first.Revision, got)
	}
	earlier := history
	earlier.Time = before
	if got, _ = lines(earlier); got != nil {
		s.Errorf("of the day before: got %q", got)
	}
	last := entries[0]
	earlier.Time = last.Time
	if got, _ = lines(earlier); len(got) != len(want) {
		s.Errorf("up to its last write: got %q", got)
	}
	if l := p.must(driver.Command{Do: driver.RevisionAt, Prefix: s.prefix, Time: last.Time}); l.Revision < last.Revision {
		s.Errorf("the time of revision %d means revision %d", last.Revision, l.Revision)
	}
	if l := p.must(driver.Command{Do: driver.RevisionAt, Prefix: s.prefix, Time: before}); l.Revision != 0 {
		s.Errorf("the day before means revision %d", l.Revision)
	}

	get := driver.Command{Do: driver.Get, Key: b}
	if l := p.must(get); l.Entries != nil {
		s.Errorf("got %+v", l.Entries)
	}
	get.LastChange = true
	if l := p.must(get); len(l.Entries) != 1 || l.Entries[0].Message != "" || l.Entries[0].Time != entries[1].Time {
		s.Errorf("got %+v, want the time %s", l.Entries, entries[1].Time)
	}
}

func testValidation(s *scene) {
	key := s.prefix + "/a"
	bad := driver.Command{Key: key, Value: `{"percent": 5000}`, ContentType: "application/json"}
	f := s.front(nil)
	p := s.start()
	p.connect(f.Address)
	do := func(name string, skip bool) driver.Line {
		s.Helper()
		c := bad
		c.Do, c.Skip = name, skip
		return p.do(c)
	}
	for name, field := range map[string]string{
		driver.Validate: "put.value", driver.Put: "put.value", driver.Update: "put.value", driver.Transact: "operations[0].put.value",
	} {
		want := []string{field + "/percent: must be at most 100, is 5000"}
		if l := do(name, false); l.Code != "INVALID_ARGUMENT" || l.Reason != "VALUE_REFUSED" || !slices.Equal(l.Violations, want) {
			s.Errorf("%s: got %+v, want the violations %q", name, l, want)
		}
	}
	good := bad
	good.Do, good.Value = driver.Validate, `{"percent": 5}`
	p.must(good)
	if l := p.must(driver.Command{Do: driver.Count, Prefix: s.prefix}); l.Count != 0 {
		s.Errorf("%d objects were written", l.Count)
	}
	for _, name := range []string{driver.Put, driver.Update, driver.Transact, driver.Delete} {
		if l := do(name, true); l.Code != "" {
			s.Errorf("%s that skips the validation: got %+v", name, l)
		}
	}
	if l := p.must(driver.Command{Do: driver.Count, Prefix: s.prefix}); l.Count != 0 {
		s.Errorf("%d objects were not deleted", l.Count)
	}
	refusing := s.front(func(request) error { return proxyError(codes.Unavailable) })
	p.connect(refusing.Address)
	if l := do(driver.Validate, false); l.Code != unavailable || len(refusing.requests("Put")) != 1 {
		s.Errorf("validate: %+v after %d requests", l, len(refusing.requests("Put")))
	}
}
