package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestEmbeddedEtcdOpensNoSocket checks that the embedded etcd does not listen unless
// configured to: every socket of the process belongs to gRPC.
func TestEmbeddedEtcdOpensNoSocket(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	s := startServer(t, "--data-dir", filepath.Join(t.TempDir(), "data"))
	put(t, s.conn, "key", []byte("so that the etcd has work"))
	_, port, err := net.SplitHostPort(s.address)
	if err != nil {
		t.Fatal(err)
	}
	sockets, err := openSockets(s.cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	listening := false
	for _, socket := range sockets {
		if socket.protocol != "tcp" || socket.port != port {
			t.Errorf("got another socket: %+v", socket)
		}
		listening = listening || socket.listens
	}
	if !listening {
		t.Errorf("got %+v without the gRPC socket, so others may be missing too", sockets)
	}
}

// socket is an open socket of a process.
type socket struct {
	protocol string // the name of the kernel's table; "unknown" if no table has it
	port     string // the local port
	listens  bool
	inode    string
}

// openSockets returns the sockets of a process. Linux has a link "socket:[inode]" per
// file descriptor, and tables that describe the inodes.
func openSockets(pid int) ([]socket, error) {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	tables := map[string]socket{}
	for _, protocol := range []string{"tcp", "tcp6", "udp", "udp6"} {
		if err := readSocketTable(proc, protocol, tables); err != nil {
			return nil, err
		}
	}
	fds, err := os.ReadDir(filepath.Join(proc, "fd"))
	if err != nil {
		return nil, err
	}
	var open []socket
	for _, fd := range fds {
		link, err := os.Readlink(filepath.Join(proc, "fd", fd.Name()))
		if errors.Is(err, os.ErrNotExist) {
			continue // closed meanwhile
		}
		if err != nil {
			return nil, err
		}
		inode, ok := strings.CutPrefix(link, "socket:[")
		if !ok {
			continue
		}
		inode = strings.TrimSuffix(inode, "]")
		s, ok := tables[inode]
		if !ok {
			s = socket{protocol: "unknown", inode: inode}
		}
		open = append(open, s)
	}
	return open, nil
}

// readSocketTable reads a table whose lines begin with a number, the local address, the
// remote address and the state. Column ten is the inode.
func readSocketTable(proc, protocol string, into map[string]socket) error {
	f, err := os.Open(filepath.Join(proc, "net", protocol))
	if errors.Is(err, os.ErrNotExist) {
		return nil // a kernel without IPv6
	}
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 10 || fields[0] == "sl" {
			continue
		}
		_, hexPort, _ := strings.Cut(fields[1], ":")
		port, err := strconv.ParseUint(hexPort, 16, 16)
		if err != nil {
			return fmt.Errorf("%s: %q: %w", f.Name(), lines.Text(), err)
		}
		const listen = "0A"
		into[fields[9]] = socket{protocol, strconv.FormatUint(port, 10), fields[3] == listen, fields[9]}
	}
	return lines.Err()
}
