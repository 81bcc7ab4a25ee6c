package behaviour

import (
	"crypto/tls"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/conformance/script"
	"github.com/fanoutd/fanoutd/test/behaviour/driver"
	"github.com/fanoutd/fanoutd/test/certs"
)

// minutes is a timeout in milliseconds that is as long as the tests wait.
const minutes = int(patience / time.Millisecond)

// The codes of errors as the programs write them.
const (
	unavailable      = "UNAVAILABLE"
	deadlineExceeded = "DEADLINE_EXCEEDED"
	unauthenticated  = "UNAUTHENTICATED"
)

func testDeadline(s *scene) {
	reads := []driver.Command{
		{Do: driver.Get, Key: "a"}, {Do: driver.List, Prefix: "a"}, {Do: driver.Count, Prefix: "a"}, {Do: driver.History, Prefix: "a"},
	}
	writes := []driver.Command{
		{Do: driver.Put, Key: "a", Value: "1"}, {Do: driver.Delete, Key: "a"}, {Do: driver.Transact, Key: "a", Value: "1"},
	}
	p := s.start()
	method := map[string]string{driver.Count: "List"}
	name := func(c driver.Command) string {
		if m := method[c.Do]; m != "" {
			return m
		}
		return strings.ToUpper(c.Do[:1]) + c.Do[1:]
	}
	for _, c := range append(reads, writes...) {
		// Without a timeout, a request has 30 s.
		f := s.front(func(request) error { return script.Refusal(codes.InvalidArgument, "INVALID_REQUEST") })
		c.Client = c.Do
		p.must(driver.Command{Do: driver.NewClient, Client: c.Client, Servers: []string{f.Address}})
		p.do(c)
		if r := f.requests(name(c))[0]; r.left <= 20*time.Second || r.left > 31*time.Second { // gRPC may round it up
			s.Errorf("%s: the request has %v, want 30 s", c.Do, r.left)
		}
	}
	for _, c := range append(reads, writes...) {
		// A request that the server does not answer is not sent again.
		f := s.front(hold)
		c.Client, c.Millis = c.Do+"-held", 500
		p.must(driver.Command{Do: driver.NewClient, Client: c.Client, Servers: []string{f.Address}})
		if l := p.do(c); l.Code != deadlineExceeded {
			s.Errorf("%s: got %+v", c.Do, l)
		}
		if n := len(f.requests(name(c))); n > 1 {
			s.Errorf("%s: the server got %d requests within the timeout", c.Do, n)
		}
	}
	var variants sync.WaitGroup
	for _, c := range reads {
		// The attempts share the time, which ends when the next pause is too long.
		f := s.front(func(request) error { return script.Unavailable(1500 * time.Millisecond) })
		c.Client, c.Millis = c.Do+"-refused", 4000
		p.must(driver.Command{Do: driver.NewClient, Client: c.Client, Servers: []string{f.Address}})
		refused := p.begin(c)
		variants.Go(func() {
			l := refused.wait()
			if l.Code != deadlineExceeded || !strings.Contains(l.Message, "refused by the script") {
				s.Errorf("%s: got %+v, want DEADLINE_EXCEEDED with the last failure", c.Do, l)
			}
			seen := f.requests(name(c))
			for i := 1; i < len(seen); i++ {
				if seen[i].left > seen[0].left-500*time.Millisecond {
					s.Errorf("%s: attempt %d has %v, the first had %v", c.Do, i+1, seen[i].left, seen[0].left)
				}
			}
			if len(seen) > 3 {
				s.Errorf("%s: %d attempts", c.Do, len(seen))
			}
		})
		// A long RetryInfo ends the request at once.
		f = s.front(func(request) error { return script.Unavailable(20 * time.Minute) })
		c.Client, c.Millis = c.Do+"-later", 2*minutes
		p.must(driver.Command{Do: driver.NewClient, Client: c.Client, Servers: []string{f.Address}})
		if l := p.do(c); l.Code != deadlineExceeded { // do waits for less than the timeout
			s.Errorf("%s: got %+v, want DEADLINE_EXCEEDED at once", c.Do, l)
		}
	}
	variants.Wait()

	if s.language == "go" {
		return // a context ends the whole list
	}
	// Each page has the whole time.
	for i := range 3 {
		s.put(fmt.Sprintf("%s/%d", s.prefix, i), "1")
	}
	f := s.front(func(r request) error {
		if r.number == 1 {
			pass(3 * time.Second)
		}
		return nil
	})
	p.must(driver.Command{Do: driver.NewClient, Client: "pages", Servers: []string{f.Address}})
	list := p.must(driver.Command{Do: driver.List, Client: "pages", Prefix: s.prefix, PageSize: 1, Millis: 60_000})
	history := p.must(driver.Command{Do: driver.History, Client: "pages", Prefix: s.prefix, PageSize: 1, Millis: 60_000})
	if len(list.Keys) != 3 || len(history.Entries) != 3 {
		s.Errorf("got %v and %v", list.Keys, history.Entries)
	}
	for _, method := range []string{"List", "History"} {
		if seen := f.requests(method); seen[1].left < seen[0].left-2*time.Second {
			s.Errorf("%s: the second page has %v, the first had %v", method, seen[1].left, seen[0].left)
		}
	}
}

func testReadRetries(s *scene) {
	p := s.start()
	var variants sync.WaitGroup
	for i, c := range []struct {
		command driver.Command
		method  string
		err     error
		want    int
		least   time.Duration // the first pause
	}{
		{driver.Command{Do: driver.Get, Key: "a"}, "Get", proxyError(codes.Unavailable), 4, 0},
		{driver.Command{Do: driver.Get, Key: "a"}, "Get", script.Refusal(codes.Unavailable, "NOT_READY"), 4, 0},
		{driver.Command{Do: driver.List, Prefix: "a"}, "List", script.Refusal(codes.Unavailable, "STORE_UNAVAILABLE"), 4, 0},
		{driver.Command{Do: driver.Count, Prefix: "a"}, "List", script.Refusal(codes.Unavailable, "STORE_UNAVAILABLE"), 4, 0},
		{driver.Command{Do: driver.History, Prefix: "a"}, "History", script.Refusal(codes.Unavailable, "STORE_UNAVAILABLE"), 4, 0},
		{driver.Command{Do: driver.RevisionAt, Time: "2026-11-27T15:04:05Z"}, "History", script.Refusal(codes.Unavailable, "STORE_UNAVAILABLE"), 4, 0},
		{driver.Command{Do: driver.Get, Key: "a"}, "Get", script.Unavailable(time.Second), 4, time.Second},
		{driver.Command{Do: driver.Get, Key: "a"}, "Get", script.Refusal(codes.Unavailable, "REVISION_NOT_REACHED"), 1, 0},
		{driver.Command{Do: driver.Get, Key: "a"}, "Get", script.Refusal(codes.ResourceExhausted, "RATE_LIMITED", script.RetryIn(10*time.Millisecond)), 4, 0},
		{driver.Command{Do: driver.Get, Key: "a"}, "Get", script.Refusal(codes.ResourceExhausted, "LIMIT_REACHED"), 1, 0},
		{driver.Command{Do: driver.Get, Key: "a"}, "Get", script.Refusal(codes.Internal, "INTERNAL"), 1, 0},
		{driver.Command{Do: driver.Get, Key: "a"}, "Get", script.Refusal(codes.NotFound, "KEY_NOT_FOUND"), 1, 0},
	} {
		f := s.front(func(request) error { return c.err })
		c.command.Client = fmt.Sprint(i)
		p.must(driver.Command{Do: driver.NewClient, Client: c.command.Client, Servers: []string{f.Address}})
		variants.Go(func() {
			l := p.do(c.command)
			seen := f.requests(c.method)
			if l.Code == "" || len(seen) != c.want {
				s.Errorf("%s: after %v: %d requests, want %d, and the error %+v", c.command.Do, c.err, len(seen), c.want, l)
			}
			for i, gap := range gaps(seen) {
				least := max(c.least, []time.Duration{160, 480, 1440}[i]*time.Millisecond)
				if gap < least {
					s.Errorf("%s: after %v: pause %d is %v, want at least %v", c.command.Do, c.err, i+1, gap, least)
				}
			}
		})
	}
	variants.Wait()
}

func testWriteOnce(s *scene) {
	p := s.start()
	f := s.front(func(r request) error {
		if r.number%2 == 1 {
			return proxyError(codes.Unavailable)
		}
		return script.Refusal(codes.ResourceExhausted, "RATE_LIMITED", script.RetryIn(time.Millisecond))
	})
	p.connect(f.Address)
	for method, c := range map[string]driver.Command{
		"Put": {Do: driver.Put, Key: "a", Value: "1"}, "Delete": {Do: driver.Delete, Key: "a"}, "Transact": {Do: driver.Transact, Key: "a", Value: "1"},
	} {
		for i, code := range []string{unavailable, "RESOURCE_EXHAUSTED"} {
			if l := p.do(c); l.Code != code || len(f.requests(method)) != i+1 {
				s.Errorf("%s: %+v after %d requests", c.Do, l, len(f.requests(method)))
			}
		}
	}
}

func testRenewal(s *scene) {
	s.put(s.prefix+"/a", "1")
	get := driver.Command{Do: driver.Get, Key: s.prefix + "/a"}
	refuse := script.Refusal(codes.Unauthenticated, "UNAUTHENTICATED")
	file := filepath.Join(s.TempDir(), "token")
	certs.Write(s, file, []byte("old"))
	p := s.start()
	var refuses atomic.Bool
	f := s.front(func(r request) error {
		if refuses.Load() {
			return refuse
		}
		if r.token == "Bearer old" {
			certs.Write(s, file, []byte("new"))
			return refuse
		}
		return nil
	})
	p.must(driver.Command{Do: driver.NewClient, Servers: []string{f.Address}, TokenFile: file})
	p.must(get)
	if seen := f.requests("Get"); len(seen) != 2 || seen[1].token != "Bearer new" {
		s.Errorf("the server got %+v", seen)
	}
	put := driver.Command{Do: driver.Put, Key: s.prefix + "/a", Value: "2"}
	refuses.Store(true)
	if l := p.do(put); l.Code != unauthenticated || len(f.requests("Put")) != 2 {
		s.Errorf("put: %+v after %d requests, want 2", l, len(f.requests("Put")))
	}
	p.must(driver.Command{Do: driver.NewClient, Servers: []string{f.Address}, Token: "fixed"})
	if l := p.do(put); l.Code != unauthenticated || len(f.requests("Put")) != 3 {
		s.Errorf("put with a fixed token: %+v after %d requests, want 1 more", l, len(f.requests("Put"))-2)
	}

	// A certificate is one of a connection.
	config := &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	ca, option := s.withTLS(config)
	pair := certs.NewAuthority(s).Issue(s, certs.Subject{CommonName: "client"}).Files(s)
	f = s.front(func(r request) error {
		if r.number == 1 {
			return refuse
		}
		return nil
	}, option)
	p.must(driver.Command{Do: driver.NewClient, Servers: []string{f.Address}, CA: ca, Cert: pair.Cert, PrivateKey: pair.Key})
	p.must(get)
	if seen := f.requests("Get"); len(seen) != 2 || seen[0].peer == seen[1].peer {
		s.Errorf("the server got %d requests, want 2 on two connections", len(seen))
	}
}

func testTurn(s *scene) {
	s.put(s.prefix+"/a", "1")
	get := driver.Command{Do: driver.Get, Key: s.prefix + "/a"}
	p := s.start()
	once := func(err error) func(request) error {
		return func(r request) error {
			if r.number == 1 {
				return err
			}
			return nil
		}
	}
	for _, c := range []struct {
		err   error
		other bool
	}{
		{proxyError(codes.Unavailable), true},
		{script.Unavailable(0), false},
	} {
		f := s.front(once(c.err))
		p.connect(f.Address)
		p.must(get)
		if seen := f.requests("Get"); len(seen) != 2 || seen[0].peer != seen[1].peer != c.other {
			s.Errorf("after %v: %d requests, another connection: %v", c.err, len(seen), seen[0].peer != seen[1].peer)
		}
	}
	for _, err := range []error{proxyError(codes.Unavailable), script.Unavailable(0)} {
		var failed atomic.Int32
		var fronts []*front
		for range 2 {
			fronts = append(fronts, s.front(func(request) error {
				if failed.Add(1) == 1 {
					return err
				}
				return nil
			}))
		}
		p.connect(fronts[0].Address, fronts[1].Address)
		p.must(get)
		if a, b := len(fronts[0].requests("Get")), len(fronts[1].requests("Get")); a != 1 || b != 1 {
			s.Errorf("after %v: the servers got %d and %d requests, want one each", err, a, b)
		}
	}
}

func testUpdate(s *scene) {
	key := s.prefix + "/a"
	value := client.Text("1").WithLabels(map[string]string{"team": "x"}).WithContentType("text/x-test")
	if _, err := s.config.Put(s.Context(), key, value, client.TTL(time.Hour)); err != nil {
		s.Fatal(err)
	}
	f := s.front(func(r request) error {
		if r.method == "Put" && r.number <= 3 {
			return script.Refusal(codes.FailedPrecondition, "PRECONDITION_FAILED")
		}
		return nil
	})
	p := s.start()
	p.connect(f.Address)
	p.must(driver.Command{Do: driver.Update, Key: key, Value: "2"})
	if reads, writes := len(f.requests("Get")), len(f.requests("Put")); reads != 4 || writes != 4 {
		s.Errorf("got %d reads and %d writes, want 4 each", reads, writes)
	}
	check := func(text, contentType, team string) {
		s.Helper()
		o, err := s.config.Get(s.Context(), key)
		if err != nil {
			s.Fatal(err)
		}
		if string(o.Value) != text || o.ContentType != contentType || o.Labels["team"] != team || !o.HasTTL {
			s.Errorf("got %q of type %q with labels %v and TTL %v", o.Value, o.ContentType, o.Labels, o.HasTTL)
		}
	}
	check("2", "text/x-test", "x")
	p.must(driver.Command{Do: driver.Update, Key: key, Value: "3", Labels: map[string]string{"team": "y"}, ContentType: "text/x-other"})
	check("3", "text/x-other", "y")
	p.must(driver.Command{Do: driver.Update, Key: s.prefix + "/new", Value: "1"})

	always := s.front(func(r request) error {
		if r.method == "Put" {
			return script.Refusal(codes.FailedPrecondition, "PRECONDITION_FAILED")
		}
		return nil
	})
	p.connect(always.Address)
	if l := p.do(driver.Command{Do: driver.Update, Key: key, Value: "4", Millis: 1500}); l.Code != deadlineExceeded {
		s.Errorf("got %+v, want DEADLINE_EXCEEDED", l)
	}
	// The delays have the limits 5, 10, 20 ... ms: about a hundred attempts would fit without them.
	if n := len(always.requests("Put")); n > 60 {
		s.Errorf("%d attempts within 1.5 s", n)
	}
}

// oddValues are the values of a language that the protocol lacks. In Go, it is an unknown one.
var oddValues = map[string][]string{
	"go": {"unknown"}, "python": {"None", "number", "list"}, "node": {"undefined", "null", "number", "object"},
}

func testNoValue(s *scene) {
	f := s.front(nil)
	p := s.start()
	p.connect(f.Address)
	for _, odd := range oddValues[s.language] {
		if l := p.do(driver.Command{Do: driver.Put, Key: s.prefix + "/a", Odd: odd}); l.Code != driver.Refused {
			s.Errorf("put of %s: %+v, want a refusal", odd, l)
		}
	}
	if n := len(f.requests("Put")); n > 0 {
		s.Errorf("the server got %d requests", n)
	}
}
