package cluster

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// path is that of the lobby. etcd serves nothing there.
const path = "/fanoutd/cluster"

// message is the answer of a lobby. Only servers without data have one.
type message struct {
	Name    string `json:"name"`
	Process string `json:"process"`
	List    string `json:"list"`
	Founder string `json:"founder"`
}

// lobby answers other servers until etcd does.
type lobby struct {
	server  http.Server
	serving sync.WaitGroup

	mu     sync.Mutex
	answer message // guarded by mu
}

// openLobby listens on the address of the peers. The caller closes the lobby.
func openLobby(ctx context.Context, address string, config *tls.Config, answer message, log *slog.Logger) (*lobby, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("cannot listen for the other servers of the cluster: %w", err)
	}
	if config != nil {
		l = tls.NewListener(l, config)
	}
	b := &lobby{answer: answer, server: http.Server{ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 5 * time.Second}}
	b.server.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug) // the others ask twice per second, and log why they wait
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
		b.mu.Lock()
		answer := b.answer
		b.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(answer) // the other server asks again
	})
	b.server.Handler = mux
	b.serving.Go(func() { _ = b.server.Serve(l) }) // ends with close
	return b, nil
}

// expect sets the server from which this one expects a new cluster.
func (b *lobby) expect(founder string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answer.Founder = founder
}

// close ends the lobby. etcd can listen on its address afterwards.
func (b *lobby) close() {
	_ = b.server.Close() // of the listener, which nothing uses any more
	b.serving.Wait()
}
