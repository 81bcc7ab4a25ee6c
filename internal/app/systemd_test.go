package app_test

import (
	"net"
	"path/filepath"
	"testing"
)

// systemd learns when the server is ready, alive and stopping, from the server itself.
func TestServerReportsToSystemd(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notify")
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	t.Setenv("NOTIFY_SOCKET", path)
	t.Setenv("WATCHDOG_USEC", "30000000")
	// await skips the reports about loading.
	await := func(report string) {
		t.Helper()
		buffer := make([]byte, 1024)
		for {
			n, err := socket.Read(buffer)
			if err != nil {
				t.Fatal(err)
			}
			if string(buffer[:n]) == report {
				return
			}
		}
	}
	_, stop := start(t, testConfig(t))
	await("READY=1\nSTATUS=serving")
	await("WATCHDOG=1")
	stop()
	await("STOPPING=1")
}
