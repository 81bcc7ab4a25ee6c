// Package systemd reports the state of the server to systemd: that it is ready, alive, or
// stopping. See sd_notify(3) and WatchdogSec= in systemd.service(5).
package systemd

import (
	"context"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// readyInterval is the interval at which a server that loads its data is checked.
const readyInterval = 100 * time.Millisecond

// Service is the server that is reported.
type Service struct {
	Unready func() string                                        // why requests are not served, or ""
	Alive   func(ctx context.Context, limit time.Duration) error // an error means that the server is stuck for longer than the limit
	Log     *slog.Logger
}

// Notify reports the service until ctx is done, and then that it stops. It returns at once if
// systemd does not wait for reports. The watchdog is notified only while the service is alive.
// If systemd hears nothing for the time of its watchdog, it restarts the service.
func Notify(ctx context.Context, s Service) {
	if sent, err := daemon.SdNotify(false, "STATUS=starting"); !sent && err == nil {
		return
	}
	defer s.send(daemon.SdNotifyStopping)
	if !s.awaitReady(ctx) {
		return
	}
	s.send(daemon.SdNotifyReady + "\nSTATUS=serving")
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		s.Log.Warn("cannot notify the watchdog of systemd", "error", err)
	}
	if limit > 0 {
		s.watchdog(ctx, limit)
	}
	<-ctx.Done()
}

// Times of [Wait]. systemd ends a start that takes too long, unless it hears that the start needs more time.
const (
	extendInterval = 10 * time.Second
	extendBy       = "EXTEND_TIMEOUT_USEC=60000000"
)

// Wait reports that a server waits for others, and why, until ctx is done. systemd does not end
// the start meanwhile. Notify follows.
func Wait(ctx context.Context, why func() string, log *slog.Logger) {
	s := Service{Log: log}
	ticker := time.NewTicker(readyInterval)
	defer ticker.Stop()
	reported, extended := "", time.Time{}
	for {
		if now, status := time.Now(), why(); status != reported || now.Sub(extended) >= extendInterval {
			reported, extended = status, now
			s.send(extendBy + "\nSTATUS=" + status)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// awaitReady waits until requests are served, and reports the reason while they are not. It
// returns false if ctx is done first.
func (s Service) awaitReady(ctx context.Context) bool {
	ticker := time.NewTicker(readyInterval)
	defer ticker.Stop()
	reported := ""
	for {
		why := s.Unready()
		if why == "" {
			return true
		}
		if why != reported {
			reported = why
			s.send("STATUS=not ready: " + why)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return false
		}
	}
}

// watchdog notifies the watchdog three times within its limit, so that one slow check does
// no harm.
func (s Service) watchdog(ctx context.Context, limit time.Duration) {
	interval := limit / 3
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		check, cancel := context.WithTimeout(ctx, interval)
		err := s.Alive(check, limit)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.Log.Error("the watchdog of systemd is not notified", "error", err)
		default:
			s.send(daemon.SdNotifyWatchdog)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s Service) send(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.Log.Warn("cannot notify systemd", "error", err)
	}
}
