package behaviour

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/conformance/load"
	"github.com/fanoutd/fanoutd/conformance/script"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/behaviour/driver"
	"github.com/fanoutd/fanoutd/test/certs"
)

// remote is a server on another machine. Only a proxy knows it.
const remote = "fanoutd.test:7420"

// withTLS makes a front use TLS, and returns the file of its authority.
func (s *scene) withTLS(config *tls.Config) (ca string, option grpc.ServerOption) {
	s.Helper()
	authority := certs.NewAuthority(s)
	subject := certs.Server
	subject.DNSNames = append(slices.Clone(subject.DNSNames), "fanoutd.test")
	config.Certificates = []tls.Certificate{authority.Issue(s, subject).TLS(s)}
	if config.ClientAuth != tls.NoClientCert {
		config.ClientCAs = authority.Pool()
	}
	return authority.File, grpc.Creds(credentials.NewTLS(config))
}

// proxyVariables make a program use a proxy.
func proxyVariables(p *httpProxy) []string {
	url := "http://" + p.address
	return []string{"http_proxy=" + url, "https_proxy=" + url, "HTTP_PROXY=" + url, "HTTPS_PROXY=" + url}
}

// put writes an object to the real server.
func (s *scene) put(key, value string) {
	s.Helper()
	if _, err := s.config.Put(s.Context(), key, client.Text(value)); err != nil {
		s.Fatal(err)
	}
}

func testTLS(s *scene) {
	s.put(s.prefix+"/a", "1")
	get := driver.Command{Do: driver.Get, Key: s.prefix + "/a"}
	plain := s.front(nil)
	ca, option := s.withTLS(&tls.Config{})
	encrypted := s.front(nil, option)

	p := s.start()
	p.connect(plain.Address)
	p.must(get)
	p.connect(strings.Replace(plain.Address, "127.0.0.1", "localhost", 1))
	p.must(get)
	p.must(driver.Command{Do: driver.NewClient, Servers: []string{encrypted.Address}, CA: ca})
	p.must(get)

	// A server on another machine gets TLS, also if one of several is on this machine, unless insecure says otherwise.
	for _, c := range []struct {
		command driver.Command
		want    bool
	}{
		{driver.Command{Servers: []string{remote}}, true},
		{driver.Command{Servers: []string{remote, s.closedAddress()}}, true},
		{driver.Command{Servers: []string{remote}, Insecure: true}, false},
	} {
		proxy := s.httpProxy(plain.Address)
		p := s.start(proxyVariables(proxy)...)
		c.command.Do = driver.NewClient
		p.must(c.command)
		asked := p.begin(get)
		s.until("the client uses the proxy", func() bool { return len(proxy.encrypted()) > 0 })
		if got := proxy.encrypted()[0]; got != c.want {
			s.Errorf("servers %v, insecure %v: encrypted is %v", c.command.Servers, c.command.Insecure, got)
		}
		if !c.want {
			if l := asked.wait(); l.Code != "" {
				s.Errorf("in plaintext: %+v", l)
			}
		}
	}
}

func testToken(s *scene) {
	s.put(s.prefix+"/a", "1")
	get := driver.Command{Do: driver.Get, Key: s.prefix + "/a"}
	f := s.front(nil)
	proxy := s.httpProxy(f.Address)
	p := s.start(proxyVariables(proxy)...)
	if l := p.do(driver.Command{Do: driver.NewClient, Servers: []string{remote}, Insecure: true, Token: "secret"}); l.Code == "" {
		if l := p.do(get); l.Code == "" {
			s.Error("a request with a token has succeeded in plaintext")
		}
	}
	if seen := f.requests("Get"); len(seen) > 0 {
		s.Errorf("the server got %+v", seen)
	}
	p.must(driver.Command{Do: driver.NewClient, Servers: []string{f.Address}, Token: "secret"})
	p.must(get)
	if seen := f.requests("Get"); len(seen) != 1 || seen[0].token != "Bearer secret" {
		s.Errorf("the server got %+v", seen)
	}
}

func testAddress(s *scene) {
	p := s.start()
	for _, address := range []string{"http://127.0.0.1:7420", "https://localhost:7420", "127.0.0.1", "localhost", "fanoutd.test"} {
		if l := p.do(driver.Command{Do: driver.NewClient, Servers: []string{address}, Insecure: true}); l.Code != driver.Refused {
			s.Errorf("%s: got %+v, want a refusal", address, l)
		}
	}
}

func testProxy(s *scene) {
	s.put(s.prefix+"/a", "1")
	get := driver.Command{Do: driver.Get, Key: s.prefix + "/a"}
	ca, option := s.withTLS(&tls.Config{})
	plain, encrypted := s.front(nil), s.front(nil, option)
	proxy := s.httpProxy(encrypted.Address)
	p := s.start(proxyVariables(proxy)...)
	for _, command := range []driver.Command{
		{Servers: []string{plain.Address}},
		{Servers: []string{strings.Replace(plain.Address, "127.0.0.1", "localhost", 1)}},
		{Servers: []string{encrypted.Address}, CA: ca},
		{Servers: []string{plain.Address}, Token: "secret"},
	} {
		command.Do = driver.NewClient
		p.must(command)
		p.must(get)
	}
	if n := len(proxy.connections()); n > 0 {
		s.Errorf("%d connections to this machine use the proxy", n)
	}
	p.must(driver.Command{Do: driver.NewClient, Servers: []string{remote}, CA: ca, Token: "secret"})
	p.must(get)
	if n := len(proxy.connections()); n == 0 {
		s.Error("no connection to another machine uses the proxy")
	}
}

func testConnect(s *scene) {
	s.put(s.prefix+"/a", "1")
	ca, option := s.withTLS(&tls.Config{})
	var variants sync.WaitGroup
	for name, c := range map[string]struct {
		ca    string
		good  *front
		calls int
	}{
		"one call":    {"", s.front(nil), 1},
		"two calls":   {"", s.front(nil), 2},
		"eight calls": {"", s.front(nil), 8},
		"TLS":         {ca, s.front(nil, option), 2},
	} {
		dead := s.listen(silent)
		p := s.start()
		variants.Go(func() {
			// A client begins with a server at random.
			for len(dead.connections()) == 0 {
				p.must(driver.Command{Do: driver.NewClient, Servers: []string{dead.address, c.good.Address}, CA: c.ca})
				var calls []answer
				for i := range c.calls {
					calls = append(calls, p.begin(driver.Command{Do: driver.Put, Key: fmt.Sprintf("%s/%s-%d", s.prefix, strings.ReplaceAll(name, " ", "-"), i), Value: "1"}))
				}
				before := len(c.good.requests("Put"))
				for _, call := range calls {
					if l := call.wait(); l.Code != "" {
						s.Errorf("%s: put: %+v", name, l)
					}
				}
				if n := len(c.good.requests("Put")); n-before > c.calls {
					s.Errorf("%s: the server got %d puts, want %d", name, n-before, c.calls)
				}
			}
		})
	}
	variants.Wait()

	// A write goes to the next server if the first one refuses the connection.
	p, good := s.start(), s.front(nil)
	for i := range 6 {
		p.connect(s.closedAddress(), good.Address)
		p.must(driver.Command{Do: driver.Put, Key: s.prefix + "/refused", Value: "1"})
		if n := len(good.requests("Put")); n != i+1 {
			s.Fatalf("the server got %d puts, want %d", n, i+1)
		}
	}
}

func testConnectAll(s *scene) {
	broken := s.listen(func(c net.Conn) { c.Close() })
	p := s.start()
	p.connect(broken.address)
	p.must(driver.Command{Do: driver.Watch, Name: "w", Prefix: s.prefix, BookmarkMillis: 1000})
	s.until("the client has tried nine times", func() bool { return len(broken.connections()) >= 9 })
	at := broken.connections()
	// Nine random delays with growing limits take less than this only once in 10,000 runs.
	if took := at[8].Sub(at[0]); took < time.Second {
		s.Errorf("nine attempts take %v", took)
	}
	// The limits are 0.2, 0.4, 0.8, 1.6 and 3.2 s.
	if took := at[5].Sub(at[0]); took > load.Scale(15*time.Second) {
		s.Errorf("six attempts take %v", took)
	}
	if l := p.do(driver.Command{Do: driver.Put, Key: s.prefix + "/a", Value: "1"}); l.Code != unavailable {
		s.Errorf("put: %+v", l)
	}
}

func testKeepalive(s *scene) {
	s.put(s.prefix+"/a", "1")
	f := s.front(nil)
	var mu sync.Mutex
	var last time.Time
	var pings []time.Duration // the silence before each ping that follows one of more than a second
	left := make(chan struct{}, 1)
	tap := s.listen(func(near net.Conn) {
		far, err := net.Dial("tcp", f.Address)
		if err != nil {
			return
		}
		r, w := io.Pipe()
		frozen := make(chan struct{})
		var reading sync.WaitGroup
		reading.Go(func() {
			frames(r, func(h http2.Frame) {
				mu.Lock()
				defer mu.Unlock()
				now := time.Now()
				if h.Header().Type == http2.FramePing && now.Sub(last) > time.Second {
					pings = append(pings, now.Sub(last))
					select {
					case <-frozen:
					default:
						close(frozen)
						far.Close() // no further ping gets an answer
					}
				}
				last = now
			})
			_, _ = io.Copy(io.Discard, r)
		})
		reading.Go(func() {
			_, _ = io.Copy(near, far)
			<-frozen
		})
		buffer := make([]byte, 4096)
		for {
			n, err := near.Read(buffer)
			if err != nil {
				break
			}
			_, _ = w.Write(buffer[:n])
			_, _ = far.Write(buffer[:n]) // fails once the connection is frozen
		}
		select {
		case left <- struct{}{}:
		default:
		}
		far.Close()
		w.Close()
		select {
		case <-frozen:
		default:
			close(frozen)
		}
		reading.Wait()
	})
	p := s.start()
	p.connect(tap.address)
	p.must(driver.Command{Do: driver.Get, Key: s.prefix + "/a"})
	select {
	case <-left: // the client gives the connection up without a request
	case <-time.After(patience): // poll.Patience
		s.Fatal("the client keeps a dead connection")
	}
	mu.Lock()
	defer mu.Unlock()
	if len(pings) == 0 {
		s.Fatal("the connection ends without a ping")
	}
	// A client with another interval has 10, 20 or 30 s. On a busy machine, the proxy may see the last frame late.
	if pings[0] < 12*time.Second || pings[0] > load.Scale(19*time.Second) {
		s.Errorf("the first ping comes after %v of silence, want 15 s", pings[0])
	}
}

// largeServer answers Get with a large object.
type largeServer struct {
	fanoutv1.UnimplementedFanoutServiceServer
}

const largeBytes = 63 << 20

func (largeServer) Get(context.Context, *fanoutv1.GetRequest) (*fanoutv1.GetResponse, error) {
	return &fanoutv1.GetResponse{
		Object: &fanoutv1.Object{Key: "a", ModRevision: 1, Value: &fanoutv1.Object_Data{Data: make([]byte, largeBytes)}},
	}, nil
}

func testMessageSize(s *scene) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.Fatal(err)
	}
	server := grpc.NewServer(grpc.MaxSendMsgSize(64 << 20))
	fanoutv1.RegisterFanoutServiceServer(server, largeServer{})
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) }) // it returns when the server stops
	s.Cleanup(func() { server.Stop(); serving.Wait() })
	p := s.start()
	p.connect(l.Addr().String())
	if got := p.must(driver.Command{Do: driver.Get, Key: "a", Millis: minutes}); got.Object.Bytes != largeBytes {
		s.Errorf("got %d bytes, want %d", got.Object.Bytes, largeBytes)
	}
}

// scripted starts a scripted server. It stops when the test ends.
func (s *scene) scripted(subscribes bool) *script.Server {
	s.Helper()
	server, err := script.NewServer(subscribes)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(server.Stop)
	return server
}

// accept waits for the next watch of the test at a scripted server.
func (s *scene) accept(server *script.Server, name string) *script.Watch {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience) // poll.Patience
	defer cancel()
	w, err := server.Accept(ctx, name)
	if err != nil {
		s.Fatalf("the client does not open the watch %s: %v", name, err)
	}
	return w
}

func testInstance(s *scene) {
	server := s.scripted(false)
	p := s.start()
	p.connect(server.Address())
	p.must(driver.Command{Do: driver.Watch, Name: "w", Prefix: "w", BookmarkMillis: 1000})
	host, err := os.Hostname()
	if err != nil {
		s.Fatal(err)
	}
	want := fmt.Sprintf("%s/%d", host, p.pid)
	if got := s.accept(server, "w").Request.GetSubscriber().GetInstance(); got != want {
		s.Errorf("got %q, want %q", got, want)
	}
}
