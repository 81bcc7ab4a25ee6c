package cluster

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// askTimeout limits a question. A server that does not answer is asked again.
const askTimeout = 2 * time.Second

// answerBytes is more than an answer has.
const answerBytes = 1 << 20

// asker asks the listed servers.
type asker struct {
	client http.Client
	scheme string
}

func newAsker(config *tls.Config) *asker {
	a := &asker{scheme: "http"}
	if config != nil {
		a.scheme = "https"
	}
	a.client.Transport = &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	a.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return a
}

// Ask asks all servers once. TLS is that of a client; nil: none.
func Ask(ctx context.Context, list List, config *tls.Config) map[string]Answer {
	return newAsker(config).all(ctx, list)
}

// all asks all servers at the same time.
func (a *asker) all(ctx context.Context, list List) map[string]Answer {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answers := make([]Answer, len(list))
	var asking sync.WaitGroup
	for i, server := range list {
		asking.Go(func() { answers[i] = a.one(ctx, server) })
	}
	asking.Wait()
	named := map[string]Answer{}
	for i, server := range list {
		named[server.Name] = answers[i]
	}
	return named
}

// one asks a server: its lobby, or else its etcd.
func (a *asker) one(ctx context.Context, server Server) Answer {
	var m message
	_, err := a.get(ctx, server, path, &m)
	switch {
	case err == nil && m.Name != server.Name:
		return Answer{Problem: fmt.Sprintf("%s leads to %q", server.Peer, m.Name)}
	case err == nil:
		return Answer{State: Empty, Process: m.Process, List: m.List, Founder: m.Founder}
	case !errors.Is(err, errNotFound):
		return Answer{Problem: problem(err)}
	}
	var members []struct{}
	header, err := a.get(ctx, server, "/members", &members)
	if err != nil {
		return Answer{Problem: problem(err)}
	}
	id, err := strconv.ParseUint(header.Get("X-Etcd-Cluster-Id"), 16, 64)
	if err != nil || id == 0 {
		return Answer{Problem: server.Peer + " does not lead to etcd"}
	}
	return Answer{State: Member, Cluster: id}
}

// errNotFound means that a server does not serve a path.
var errNotFound = errors.New("not found")

// get reads a JSON document.
func (a *asker) get(ctx context.Context, server Server, path string, into any) (http.Header, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, a.scheme+"://"+server.Peer+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := a.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, answerBytes))
	switch {
	case err != nil:
		return nil, err
	case response.StatusCode == http.StatusNotFound:
		return nil, errNotFound
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("it answers with status %d", response.StatusCode)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return nil, fmt.Errorf("it does not answer as a server of a cluster: %w", err)
	}
	return response.Header, nil
}

// problem describes an error without the URL, which is in the message anyway.
func problem(err error) string {
	var op *net.OpError
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "no answer"
	case errors.As(err, &op):
		return op.Err.Error()
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err.Error()
		}
		err = inner
	}
}
