package directory

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"google.golang.org/protobuf/proto"
)

// SingleName is the name of the member of a server without a cluster.
const SingleName = "fanoutd"

// Identity is to which cluster a data directory belongs.
type Identity struct {
	Path    string // of the data
	Cluster uint64 // 0: the directory is empty
	Member  uint64
	Name    string // of the member; empty: it has not been ready yet
	Single  bool   // the only member, of a server without a cluster
}

// Identify reads the identity of a data directory, in which no etcd runs.
func Identify(dir string) (identity Identity, err error) {
	if err := CheckLayout(dir); err != nil {
		return identity, err
	}
	// As for the start of etcd: the database is read through a memory map.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	return ReadIdentity(Etcd(dir))
}

// ReadIdentity reads the identity of the data in etcd's directory.
func ReadIdentity(member string) (identity Identity, err error) {
	identity.Path = member
	path := datadir.ToBackendFileName(member)
	state := Database{}
	if _, err := os.Stat(path); err == nil {
		if state, err = ReadDatabase(path); err != nil {
			return identity, err
		}
	}
	names, err := LogFiles(datadir.ToWALDir(member))
	switch {
	case err != nil:
		return identity, err
	case len(names) > 0:
	case state.Applied > 0:
		return identity, Damaged("the write-ahead log %s is missing: restore a backup", datadir.ToWALDir(member))
	default:
		return identity, nil // new, or the first start was interrupted
	}
	metadata, err := ReadMetadata(datadir.ToWALDir(member), names[0])
	if err != nil {
		return identity, err
	}
	identity.Cluster, identity.Member = metadata.GetClusterID(), metadata.GetNodeID()
	identity.Name = state.Names[identity.Member]
	identity.Single = state.members == 1 && identity.Name == SingleName
	return identity, nil
}

// ReadMetadata reads the metadata of a file of the write-ahead log. All files of a log have the same.
func ReadMetadata(dir, name string) (*etcdserverpb.Metadata, error) {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	decoder := wal.NewDecoder(fileutil.NewFileReader(f))
	for record := (&walpb.Record{}); ; {
		if err := decoder.Decode(record); err != nil {
			return nil, DamagedLog(dir, err)
		}
		switch record.GetType() {
		case wal.CrcType:
			decoder.UpdateCRC(record.GetCrc())
		case wal.MetadataType:
			metadata := &etcdserverpb.Metadata{}
			if err := proto.Unmarshal(record.GetData(), metadata); err != nil {
				return nil, DamagedLog(dir, err)
			}
			if metadata.GetClusterID() == 0 {
				return nil, DamagedLog(dir, errors.New("it has no cluster"))
			}
			return metadata, nil
		}
	}
}

// readMembers reads the names of the members that the database contains.
func (s *Database) readMembers(tx *bolt.Tx) error {
	members := tx.Bucket(schema.Members.Name())
	if members == nil {
		return nil
	}
	s.Names = map[uint64]string{}
	return members.ForEach(func(_, value []byte) error {
		var m struct {
			ID   uint64 `json:"id"`
			Name string `json:"name"`
		}
		if err := json.Unmarshal(value, &m); err != nil {
			return err
		}
		s.members++
		s.Names[m.ID] = m.Name
		return nil
	})
}
