package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	bolt "go.etcd.io/bbolt"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/client/localfile"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Snapshot describes a snapshot that was written to a file.
type Snapshot struct {
	File     string `json:"file"`
	Member   string `json:"member"` // whose database it is
	Bytes    int64  `json:"bytes"`
	Revision int64  `json:"revision"`
	SHA256   string `json:"sha256"`            // of the database, without the hash at the end of the file
	Problem  string `json:"problem,omitempty"` // why the data may be old or wrong
}

// Snapshot writes a snapshot of the member that answers to a file, which appears only once it is
// complete and verified. With allowUnsafe, its data may be old or wrong: Problem says so. Progress gets the number of bytes received and of those that follow.
func (c *Client) Snapshot(ctx context.Context, path string, allowUnsafe bool, progress func(received, remaining int64)) (Snapshot, error) {
	s := Snapshot{File: path}
	localfile.RemoveTemporaries(path) // they may be large
	file, err := localfile.Begin(path, 0o600)
	if err != nil {
		return s, fmt.Errorf("cannot write the snapshot: %w", err)
	}
	defer file.Discard()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := c.service.TakeSnapshot(ctx, &fanoutv1.TakeSnapshotRequest{AllowUnsafe: allowUnsafe})
	if err != nil {
		return s, fmt.Errorf("take a snapshot: %w", client.ErrorOf(err))
	}
	content := trailing{hash: sha256.New()}
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return s, fmt.Errorf("receive the snapshot: %w", client.ErrorOf(err))
		}
		if s.Member == "" {
			s.Member, s.Problem = part.GetMember(), part.GetProblem()
		}
		if _, err := file.Write(part.GetChunk()); err != nil {
			return s, fmt.Errorf("cannot write the snapshot: %w", err)
		}
		content.add(part.GetChunk())
		s.Bytes += int64(len(part.GetChunk()))
		progress(s.Bytes, part.GetRemainingBytes())
	}
	if s.SHA256, err = content.verify(); err != nil {
		return s, err
	}
	if s.Revision, err = examine(file.Name()); err != nil {
		return s, fmt.Errorf("the database of %s is damaged, take the snapshot from another server: %w", s.Member, err)
	}
	if err := file.Commit(); err != nil {
		return s, fmt.Errorf("cannot write the snapshot: %w", err)
	}
	return s, nil
}

// trailing hashes everything but the last bytes, which are the hash.
type trailing struct {
	hash hash.Hash
	last []byte
}

func (t *trailing) add(chunk []byte) {
	t.last = append(t.last, chunk...)
	if n := len(t.last) - sha256.Size; n > 0 {
		t.hash.Write(t.last[:n])
		t.last = append(t.last[:0], t.last[n:]...)
	}
}

// verify returns the hash if the last bytes are it.
func (t *trailing) verify() (string, error) {
	sum := hex.EncodeToString(t.hash.Sum(nil))
	if hex.EncodeToString(t.last) != sum {
		return "", errors.New("the snapshot is incomplete: its hash is not at its end")
	}
	return sum, nil
}

// lockTimeout limits the wait for a file that nobody else knows.
const lockTimeout = 10 * time.Second

// examine checks the structure of a database and returns its revision: that of the last key of
// the bucket in which etcd keeps the revisions of all keys.
func examine(path string) (revision int64, err error) {
	db, err := bolt.Open(path, 0o400, &bolt.Options{ReadOnly: true, Timeout: lockTimeout})
	if err != nil {
		return 0, err
	}
	defer db.Close()
	err = db.View(func(tx *bolt.Tx) error {
		var damage error
		for err := range tx.Check() { // to its end, because it runs on a goroutine
			if damage == nil {
				damage = err
			}
		}
		if damage != nil {
			return damage
		}
		keys := tx.Bucket([]byte("key"))
		if keys == nil {
			return errors.New("it is not a database of etcd")
		}
		if last, _ := keys.Cursor().Last(); len(last) >= 8 {
			revision = int64(binary.BigEndian.Uint64(last))
		}
		return nil
	})
	return revision, err
}
