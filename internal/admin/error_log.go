package admin

import (
	"log/slog"
	"strings"
	"sync"
	"time"
)

// errorLog passes the log lines of http.Server to slog. Any client can cause some of them with each
// connection, for example with a damaged frame, so only the first errorLines of each
// errorLogInterval are logged. The next line says how many were left out.
type errorLog struct {
	log *slog.Logger

	mu      sync.Mutex
	began   time.Time // guarded by mu: when the interval began
	lines   int       // guarded by mu: of the interval
	leftOut int       // guarded by mu: since the last line
}

// These are guesses: enough to see what goes on, too few to fill a log.
const (
	errorLogInterval = 10 * time.Second
	errorLines       = 3
)

// Write implements [io.Writer].
func (l *errorLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := time.Now(); now.Sub(l.began) >= errorLogInterval {
		l.began, l.lines = now, 0
	}
	if l.lines == errorLines {
		l.leftOut++
		return len(b), nil
	}
	line := l.log
	if l.leftOut > 0 {
		line = line.With("left_out", l.leftOut)
	}
	line.Warn(strings.TrimSpace(string(b)))
	l.lines, l.leftOut = l.lines+1, 0
	return len(b), nil
}
