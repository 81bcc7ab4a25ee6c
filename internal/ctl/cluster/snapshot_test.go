package cluster

import (
	"crypto/sha256"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// sender sends a file in parts.
type sender struct {
	fanoutv1.UnimplementedClusterServiceServer
	file []byte
}

func (s *sender) TakeSnapshot(_ *fanoutv1.TakeSnapshotRequest, stream grpc.ServerStreamingServer[fanoutv1.TakeSnapshotResponse]) error {
	rest, member := s.file, "node-1"
	for len(rest) > 0 {
		n := min(len(rest), 1000)
		if err := stream.Send(&fanoutv1.TakeSnapshotResponse{Chunk: rest[:n], Member: member}); err != nil {
			return err
		}
		rest, member = rest[n:], ""
	}
	return nil
}

// hashed appends its hash to a database.
func hashed(database []byte) []byte {
	sum := sha256.Sum256(database)
	return append(database[:len(database):len(database)], sum[:]...)
}

// clientOf returns a client of a server.
func clientOf(t *testing.T, service fanoutv1.ClusterServiceServer) *Client {
	t.Helper()
	listener, err := net.Listen("tcp", loopback.FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	fanoutv1.RegisterClusterServiceServer(server, service)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	c, err := client.New(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return New(c)
}

// A snapshot appears only if it is complete and its database is sound. Otherwise the previous file stays.
func TestSnapshotIsVerified(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		keys, err := tx.CreateBucket([]byte("key"))
		if err == nil {
			err = keys.Put([]byte("\x00\x00\x00\x00\x00\x00\x01\x02_\x00\x00\x00\x00\x00\x00\x00\x00"), []byte("value"))
		}
		return err
	})
	if err == nil {
		err = db.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	database, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	damaged := append([]byte(nil), database...)
	for i := 2 * os.Getpagesize(); i < len(damaged); i++ { // all but the two pages that describe the file
		damaged[i] = 0xff
	}
	flipped := hashed(database)
	flipped[5000] ^= 1
	for _, tt := range []struct {
		name    string
		file    []byte
		problem string
	}{
		{"complete", hashed(database), ""},
		{"cut off", hashed(database)[:len(database)], "the snapshot is incomplete"},
		{"empty", nil, "the snapshot is incomplete"},
		{"without its hash", database, "the snapshot is incomplete"},
		{"changed on the way", flipped, "the snapshot is incomplete"},
		{"damaged at the server", hashed(damaged), "the database of node-1 is damaged"},
		{"of another kind", hashed(make([]byte, 4096)), "the database of node-1 is damaged"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := clientOf(t, &sender{file: tt.file})
			target := filepath.Join(t.TempDir(), "backup.db")
			if err := os.WriteFile(target, []byte("previous"), 0o600); err != nil {
				t.Fatal(err)
			}
			// A process that was killed has left the first file. The second one is not a temporary file.
			killed, other := filepath.Join(filepath.Dir(target), ".backup.db.fanoutd-1"), filepath.Join(filepath.Dir(target), "backup.db.fanoutd-1")
			for _, path := range []string{killed, other} {
				if err := os.WriteFile(path, nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s, err := c.Snapshot(poll.Context(t), target, false, func(int64, int64) {})
			content, readErr := os.ReadFile(target)
			if readErr != nil {
				t.Fatal(readErr)
			}
			if left, _ := filepath.Glob(filepath.Join(filepath.Dir(target), ".*")); len(left) > 0 {
				t.Errorf("%v is left", left)
			}
			if _, err := os.Stat(other); err != nil {
				t.Error(err)
			}
			if tt.problem == "" {
				if err != nil || s.Revision != 0x102 || s.Member != "node-1" || string(content) != string(tt.file) {
					t.Errorf("got %+v, %v", s, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.problem) || string(content) != "previous" {
				t.Errorf("got %v and a file of %d bytes, want %q and the previous one", err, len(content), tt.problem)
			}
		})
	}
}
