package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
)

// interval is the time between two rounds of questions.
const interval = 500 * time.Millisecond

// Config configures Await.
type Config struct {
	List      List
	Name      string    // of this server, which is in the list
	DataDir   string    // of this server, in which [Form] leaves its file; locked for this process
	Directory Directory // what the data directory contains
	Listen    string    // address of the peers

	// TLS of the lobby, and of the questions to the others; nil: none.
	ServerTLS, ClientTLS *tls.Config

	// Join adds this server to a cluster and returns the list of its members, for etcd. Other errors
	// than a [Refusal] are tried again.
	Join func(ctx context.Context, cluster uint64, via []Server) (members string, err error)

	// OnWait is called when it changes for which servers this one waits.
	OnWait func(Awaited)

	Log *slog.Logger
}

// Awaited is for which servers a server waits.
type Awaited struct {
	Servers []string // their names
	Reason  string   // for which servers, and why; it may contain addresses
}

// Beginning is how etcd starts.
type Beginning struct {
	Action  Action // not Wait
	Members string // the members of a cluster to join, in etcd's form
	Cluster uint64 // to which this server belongs; 0: a new one
}

// Await returns how etcd starts in the data directory, as soon as that is decided. Errors are a
// [Refusal], that of the context, or of listening.
func Await(ctx context.Context, cfg Config) (Beginning, error) {
	s := Situation{List: cfg.List, Name: cfg.Name, Directory: cfg.Directory, Process: uuid.NewString()}
	ask := newAsker(cfg.ClientTLS)
	if cfg.Directory.Cluster != 0 {
		s.Answers = ask.all(ctx, cfg.List)
		d, err := Decide(s)
		return Beginning{Action: d.Action, Cluster: cfg.Directory.Cluster}, err
	}
	room, err := openLobby(ctx, cfg.Listen, cfg.ServerTLS,
		message{Name: cfg.Name, Process: s.Process, List: cfg.List.digest(), Founder: cfg.List.founder(nil)}, cfg.Log)
	if err != nil {
		return Beginning{}, err
	}
	defer room.close()
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	said := ""
	for {
		if s.Without, err = without(cfg.DataDir); err != nil {
			return Beginning{}, err
		}
		room.expect(cfg.List.founder(s.leftOut())) // by the answers of the last round
		s.Answers = ask.all(ctx, cfg.List)
		if err := cfg.takeBack(&s); err != nil {
			return Beginning{}, err
		}
		d, err := Decide(s)
		if err != nil {
			return Beginning{}, err
		}
		switch d.Action {
		case Wait:
		case Join:
			cfg.Log.Debug("joining the cluster", "cluster", fmt.Sprintf("%x", d.Cluster))
			members, err := cfg.Join(ctx, d.Cluster, d.Via)
			if refusal, ok := errors.AsType[*Refusal](err); ok {
				return Beginning{}, refusal
			}
			if err == nil {
				cfg.Log.Info("joining the cluster", "name", cfg.Name, "cluster", fmt.Sprintf("%x", d.Cluster), "members", members)
				return Beginning{Action: Join, Members: members, Cluster: d.Cluster}, forget(cfg.DataDir)
			}
			d.For, d.Reason = namesOf(d.Via), fmt.Sprintf("cluster %x: %v", d.Cluster, err)
		default:
			cfg.Log.Info("founding a cluster", "name", cfg.Name, "without", s.Without)
			return Beginning{Action: d.Action}, forget(cfg.DataDir)
		}
		if d.Reason != said {
			said = d.Reason
			cfg.Log.Info("waiting for " + said)
			cfg.OnWait(Awaited{d.For, d.Reason})
		}
		select {
		case <-ctx.Done():
			return Beginning{}, fmt.Errorf("waiting for %s: %w", said, ctx.Err())
		case <-ticker.C:
		}
	}
}

// formFile contains the names of the servers without which a cluster may be founded.
const formFile = "cluster-without"

// Form makes the server with this data directory found a cluster without some servers. The caller has
// checked their names with [List.CheckWithout].
func Form(dataDir string, without []string) error {
	if err := os.MkdirAll(dataDir, 0o700); err != nil {
		return fmt.Errorf("create data directory: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dataDir, formFile), []byte(strings.Join(without, "\n")+"\n"), 0o600); err != nil {
		return fmt.Errorf("write the servers without which to found a cluster: %w", err)
	}
	return nil
}

// without reads the file of Form.
func without(dataDir string) ([]string, error) {
	names, err := os.ReadFile(filepath.Join(dataDir, formFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("read the servers without which to found a cluster: %w", err)
	}
	return strings.Fields(string(names)), nil
}

// takeBack removes servers that have answered from the file of Form. Otherwise, this server would found when such a
// server stops answering, although that one may just have founded, and be about to start its etcd.
func (cfg *Config) takeBack(s *Situation) error {
	left := s.leftOut()
	if len(left) == len(s.Without) {
		return nil
	}
	for _, name := range s.Without {
		if !slices.Contains(left, name) {
			cfg.Log.Warn("a server that was to be left out answers, so it is waited for again", "server", name)
		}
	}
	return Form(cfg.DataDir, left)
}

// forget removes the file of Form, so that it is not used again in another directory.
func forget(dataDir string) error {
	if err := os.Remove(filepath.Join(dataDir, formFile)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("remove the servers without which a cluster was founded: %w", err)
	}
	return nil
}
