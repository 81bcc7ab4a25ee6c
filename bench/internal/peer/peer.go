package peer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/calls"
	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/process"
)

// startTimeout bounds the start of a system.
const startTimeout = time.Minute

// Peer is a running system.
type Peer struct {
	Servers   []*process.Process // each is measured separately
	Address   string             // for watchers
	Writer    Writer             // nil if there is nothing to write
	Positions Positioner         // nil if watches cannot resume
	Members   []Member           // of a cluster, otherwise nil

	// Metrics has the Prometheus URLs of servers by name. Profile is the pprof URL of the
	// last server, or "".
	Metrics map[string]string
	Profile string

	dir      string
	launches []launch // how Servers were started
	// read makes a linearizable read of a key.
	read func(ctx context.Context, key string) error
}

// launch is how a server was started.
type launch struct {
	name, address, program string
	args                   []string
}

// Writer writes to the store of a system. Only one goroutine at a time may write a key.
type Writer interface {
	// Write writes the changes together and waits for the acknowledgement.
	Write(ctx context.Context, changes []Change) error
	Close() error
}

// Positioner returns the position of a watch that has seen all writes so far.
type Positioner interface {
	Position(ctx context.Context) (load.Position, error)
}

// Change is a new value of a key.
type Change struct {
	Key   int // the number of the key, see load.Key
	Value []byte
}

// Programs has the programs of the servers.
type Programs struct {
	Self    string // fanoutbench, which also runs etcd, NATS and the floor
	Fanoutd string
}

// Options are the options of a system.
type Options struct {
	Programs
	Config load.Config // of the watchers, without the address
	Window int         // size of fanoutd's window in changes; 0: the default

	DefaultLimits bool // fanoutd has the limits that it has by default; otherwise none per client
	History       bool // fanoutd keeps a history of the writes
}

// driver starts a system.
type driver struct {
	protocol string // of watchers, see load.Config
	start    func(ctx context.Context, p *Peer, o Options) error
}

var drivers = map[string]driver{
	"fanoutd":           {"fanoutd", fanoutd},
	"fanoutd-embedded":  {"fanoutd", fanoutdEmbedded},
	FanoutdCluster:      {"fanoutd", fanoutdCluster},
	FanoutdsBeforeEtcds: {"fanoutd", fanoutdsBeforeEtcds},
	"floor":             {"fanoutd", floor},
	"etcd":              {"etcd", etcd},
	"etcd-embedded":     {"etcd", etcdEmbedded},
	EtcdCluster:         {"etcd", etcdCluster},
	"grpc-proxy":        {"etcd", grpcProxy},
	"nats":              {"nats", nats},
	"nats-kv":           {"nats-kv", natsKV},
	"grpc":              {calls.ProtocolEmpty, empty},
}

// Protocol returns the protocol for watchers of a system.
func Protocol(name string) (string, error) {
	d, ok := drivers[name]
	if !ok {
		return "", fmt.Errorf("unknown peer %q (want one of %s)", name, strings.Join(Names(), ", "))
	}
	return d.protocol, nil
}

// Names returns the names of all systems.
func Names() []string { return slices.Sorted(maps.Keys(drivers)) }

// Start starts a system with an empty store. The caller must stop it.
func Start(ctx context.Context, name string, o Options) (*Peer, error) {
	if _, err := Protocol(name); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(tmpfs(), "fanoutbench-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for data: %w", err)
	}
	p := &Peer{dir: dir, Metrics: map[string]string{}}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := drivers[name].start(ctx, p, o); err != nil {
		p.Stop()
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	return p, nil
}

// Stop ends all servers and removes their data.
func (p *Peer) Stop() {
	if p.Writer != nil {
		p.Writer.Close()
	}
	for _, s := range slices.Backward(p.Servers) {
		s.Stop()
	}
	os.RemoveAll(p.dir)
}

// tmpfs returns a directory in memory, so that the comparison does not depend on disks, or
// "" if there is none.
func tmpfs() string {
	const memory = "/dev/shm"
	probe, err := os.MkdirTemp(memory, "fanoutbench-")
	if err != nil {
		return ""
	}
	os.Remove(probe)
	return memory
}

// run starts a server and waits until it accepts connections at the address.
func (p *Peer) run(ctx context.Context, name, address, program string, args ...string) error {
	if err := p.launch(name, address, program, args...); err != nil {
		return err
	}
	return await(ctx, p.Servers[len(p.Servers)-1], address)
}

// launch starts a server that will accept connections at the address.
func (p *Peer) launch(name, address, program string, args ...string) error {
	server, err := process.Start(name, program, args, nil, nil)
	if err != nil {
		return err
	}
	p.Servers = append(p.Servers, server)
	p.launches = append(p.launches, launch{name, address, program, args})
	return nil
}

// relaunch starts a server that has ended again.
func (p *Peer) relaunch(i int) error {
	l := p.launches[i]
	server, err := process.Start(l.name, l.program, l.args, nil, nil)
	if err != nil {
		return err
	}
	p.Servers[i] = server
	return nil
}

// await waits until a server accepts connections at the address.
func await(ctx context.Context, server *process.Process, address string) error {
	retry := time.NewTicker(20 * time.Millisecond)
	defer retry.Stop()
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-retry.C:
		case <-server.Exited():
			return fmt.Errorf("%s exited: %s", server.Name, server.Log())
		case <-ctx.Done():
			return fmt.Errorf("wait for %s at %s: %w: %s", server.Name, address, errors.Join(ctx.Err(), err), server.Log())
		}
	}
}

// The ports of servers are below the ephemeral ports of Linux. Otherwise another connection
// could take a port between the search for it and the listen call.
const (
	firstPort = 10000
	lastPort  = 32767
)

// Ports are tried in turn from a random one on, so that no two servers get the same one.
var (
	randomPort = rand.IntN(lastPort - firstPort + 1)
	tried      atomic.Int64
)

// freeAddress returns a loopback address with a free port.
func freeAddress() (string, error) {
	var err error
	for range 100 {
		port := firstPort + (randomPort+int(tried.Add(1)))%(lastPort-firstPort+1)
		var l net.Listener
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			defer l.Close()
			return l.Addr().String(), nil
		}
	}
	return "", fmt.Errorf("find a free port: %w", err)
}

// file writes a file for a server and returns its path.
func (p *Peer) file(name, content string) (string, error) {
	path := filepath.Join(p.dir, name)
	return path, os.WriteFile(path, []byte(content), 0o600)
}

// prefix is the prefix of the keys in etcd.
const prefix = load.Prefix
