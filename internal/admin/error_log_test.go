package admin

import (
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"

	"github.com/fanoutd/fanoutd/test/logs"
	"github.com/fanoutd/fanoutd/test/poll"
)

// Clients that break HTTP/2 write few lines into the log, however often they connect.
func TestDamagedFramesDoNotFillTheLog(t *testing.T) {
	var lines logs.Buffer
	address := serve(t, Config{Log: slog.New(slog.NewTextHandler(&lines, nil))})
	const connections = 100
	var clients sync.WaitGroup
	for range connections {
		conn, err := net.DialTimeout("tcp", address, poll.Patience)
		if err != nil {
			t.Fatal(err)
		}
		clients.Go(func() {
			defer conn.Close()
			// A PING that belongs to a stream ends the connection.
			ping := "\x00\x00\x08\x06\x00\x00\x00\x00\x01" + "12345678"
			if _, err := io.WriteString(conn, http2.ClientPreface+"\x00\x00\x00\x04\x00\x00\x00\x00\x00"+ping); err != nil {
				t.Error(err)
			}
			_, _ = io.Copy(io.Discard, conn) // until the server closes it
		})
	}
	clients.Wait()
	if n := strings.Count(lines.String(), "level=WARN"); n == 0 || n > connections/2 {
		t.Errorf("got %d lines for %d connections, want a few:\n%s", n, connections, lines.String())
	}
}

// The next line says how many were left out.
func TestLeftOutLinesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines logs.Buffer
		l := &errorLog{log: slog.New(slog.NewTextHandler(&lines, nil))}
		for range 100 {
			if _, err := l.Write([]byte("http2: server: error\n")); err != nil {
				t.Fatal(err)
			}
		}
		if n := strings.Count(lines.String(), "level=WARN"); n != errorLines {
			t.Errorf("got %d lines, want %d", n, errorLines)
		}
		time.Sleep(errorLogInterval)
		if _, err := l.Write([]byte("http2: server: another error\n")); err != nil {
			t.Fatal(err)
		}
		if want := `msg="http2: server: another error" left_out=97`; !strings.Contains(lines.String(), want) {
			t.Errorf("got %s, want %s", lines.String(), want)
		}
	})
}
