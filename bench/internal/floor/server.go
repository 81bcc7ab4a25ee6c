package floor

import (
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
)

// Server writes messages to all streams of all connections.
type Server struct {
	listener net.Listener
	first    func() ([]byte, error) // returns the first message of streams; called once
	workers  []*worker
	running  sync.WaitGroup
}

// worker writes to its connections one after another.
type worker struct {
	work chan []byte
	done chan struct{}

	mu          sync.Mutex // guards the following
	connections []*connection
}

// New returns a server. Each stream first gets the message that first returns; the server
// calls first when the first stream opens. Call Run to serve.
func New(listener net.Listener, first func() ([]byte, error)) *Server {
	framed := sync.OnceValues(func() ([]byte, error) {
		m, err := first()
		return message(m), err
	})
	s := &Server{listener: listener, first: framed}
	for range runtime.GOMAXPROCS(0) {
		w := &worker{work: make(chan []byte), done: make(chan struct{})}
		s.workers = append(s.workers, w)
		s.running.Go(w.run)
	}
	return s
}

// Run serves clients until Close.
func (s *Server) Run() error {
	for i := 0; ; i++ {
		conn, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		} else if err != nil {
			return fmt.Errorf("accept a connection: %w", err)
		}
		w, c := s.workers[i%len(s.workers)], &connection{conn: conn}
		w.add(c)
		s.running.Go(func() {
			_ = c.serve(s.first) // ends when the client disconnects
			w.remove(c)
		})
	}
}

// Broadcast writes a message to all streams. Only one goroutine at a time may call it.
func (s *Server) Broadcast(m []byte) {
	framed := message(m)
	for _, w := range s.workers {
		w.work <- framed
	}
	for _, w := range s.workers {
		<-w.done
	}
}

// Close ends all connections and waits for the goroutines of the server. Run and Broadcast
// must not be called afterwards.
func (s *Server) Close() {
	s.listener.Close()
	for _, w := range s.workers {
		close(w.work)
		for _, c := range w.all() {
			c.conn.Close()
		}
	}
	s.running.Wait()
}

func (w *worker) run() {
	var buffer []byte
	for m := range w.work {
		for _, c := range w.all() {
			var err error
			if buffer, err = c.broadcast(m, buffer); err != nil {
				c.conn.Close()
			}
		}
		w.done <- struct{}{}
	}
}

// all returns the connections. Later calls of add and remove do not change the result.
func (w *worker) all() []*connection {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.connections
}

func (w *worker) add(c *connection) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.connections = append(w.connections, c)
}

func (w *worker) remove(c *connection) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.connections = slices.DeleteFunc(slices.Clone(w.connections), func(o *connection) bool { return o == c })
}
