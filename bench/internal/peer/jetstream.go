package peer

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	natsclient "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/fanoutd/fanoutd/bench/internal/load"
)

// natsKV drives a NATS bucket, which has a state and watchers like etcd.
func natsKV(ctx context.Context, p *Peer, o Options) error {
	// Each watcher is a consumer, and a stream has 1000 consumers by default.
	config, err := p.file("nats.conf", fmt.Sprintf(`jetstream {store_dir: %q, limits: {default_max_consumers: -1}}`, filepath.Join(p.dir, "jetstream")))
	if err != nil {
		return fmt.Errorf("configure NATS: %w", err)
	}
	address, err := p.natsServer(ctx, o, "--config", config)
	if err != nil {
		return err
	}
	conn, err := natsclient.Connect("nats://"+address, natsclient.MaxReconnects(-1), natsclient.ReconnectWait(5*time.Millisecond), natsclient.ReconnectJitter(0, 0))
	if err != nil {
		return fmt.Errorf("connect to NATS: %w", err)
	}
	w := &kvWriter{conn: conn, config: o.Config}
	p.Address, p.Writer, p.Positions = address, w, w
	js, err := jetstream.New(conn)
	if err != nil {
		return fmt.Errorf("use JetStream: %w", err)
	}
	p.read = w.read
	// On a disk that writes do not wait for, as with etcd here. With a history of one change, a change that
	// is overwritten before it is delivered would be lost.
	w.bucket, err = js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: load.Subject, History: 64})
	if err != nil {
		return fmt.Errorf("create the bucket: %w", err)
	}
	return nil
}

// kvWriter writes to the bucket.
type kvWriter struct {
	conn   *natsclient.Conn
	bucket jetstream.KeyValue
	config load.Config
}

// Position returns the last revision of the bucket.
func (w *kvWriter) Position(ctx context.Context) (load.Position, error) {
	status, err := w.bucket.Status(ctx)
	if err != nil {
		return load.Position{}, fmt.Errorf("read the state of the bucket: %w", err)
	}
	info := status.(*jetstream.KeyValueBucketStatus).StreamInfo()
	return load.Position{Revision: int64(info.State.LastSeq)}, nil
}

// read reads the last value of a key.
func (w *kvWriter) read(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second) // the client does not repeat what a restart lost
	defer cancel()
	if _, err := w.bucket.Get(ctx, key); err != nil {
		return fmt.Errorf("read from the bucket: %w", err)
	}
	return nil
}

// Write puts one value after another, because a bucket has no transactions.
func (w *kvWriter) Write(ctx context.Context, changes []Change) error {
	for _, c := range changes {
		key := load.Key(c.Key)
		if w.config.Interest == load.InterestLabel {
			key = load.Group(c.Key%w.config.Groups) + "." + key
		}
		if _, err := w.bucket.Put(ctx, key, c.Value); err != nil {
			return fmt.Errorf("put into the bucket: %w", err)
		}
	}
	return nil
}

func (w *kvWriter) Close() error {
	w.conn.Close()
	return nil
}
