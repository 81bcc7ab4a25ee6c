package peer

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// Goroutines returns how many goroutines a server has, or 0 if it does not tell.
func (p *Peer) Goroutines(ctx context.Context, server string) (float64, error) {
	return p.metric(ctx, server, "go_goroutines")
}

// Live returns how many bytes of the heap of each server are in use, behind a garbage
// collection; 0 where a server does not tell. It is for when nothing is measured: the
// others do not collect theirs.
func (p *Peer) Live(ctx context.Context) ([]int64, error) {
	all := make([]int64, len(p.Servers))
	if p.Profile == "" {
		return all, nil
	}
	page, err := get(ctx, p.Profile+"heap?gc=1")
	if err != nil {
		return nil, fmt.Errorf("have the garbage collected: %w", err)
	}
	page.Close()
	last := len(p.Servers) - 1
	live, err := p.metric(ctx, p.Servers[last].Name, "go_memstats_heap_alloc_bytes")
	all[last] = int64(live)
	return all, err
}

// metric returns a metric of a server, or 0 if it does not tell.
func (p *Peer) metric(ctx context.Context, server, name string) (float64, error) {
	url, ok := p.Metrics[server]
	if !ok {
		return 0, nil
	}
	page, err := get(ctx, url)
	if err != nil {
		return 0, fmt.Errorf("ask %s for its metrics: %w", server, err)
	}
	defer page.Close()
	for lines := bufio.NewScanner(page); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, nil
}

// ProfileCPU writes into a file what the server in front does for a time.
func (p *Peer) ProfileCPU(ctx context.Context, duration time.Duration, path string) error {
	if p.Profile == "" {
		return fmt.Errorf("%s tells no profile", p.Servers[len(p.Servers)-1].Name)
	}
	seconds := max(1, int(duration.Seconds()))
	page, err := get(ctx, fmt.Sprintf("%sprofile?seconds=%d", p.Profile, seconds))
	if err != nil {
		return fmt.Errorf("ask for a profile: %w", err)
	}
	defer page.Close()
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, page); err != nil {
		f.Close()
		return fmt.Errorf("read the profile: %w", err)
	}
	return f.Close()
}

func get(ctx context.Context, url string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		return nil, fmt.Errorf("%s says %s", url, response.Status)
	}
	return response.Body, nil
}
