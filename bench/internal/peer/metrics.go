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

// Live returns the live heap of each server in bytes after a garbage collection, or 0 if it
// is unknown. Do not call it during a measurement: only some servers collect garbage then.
func (p *Peer) Live(ctx context.Context) ([]int64, error) {
	all := make([]int64, len(p.Servers))
	if p.Profile == "" {
		return all, nil
	}
	page, err := get(ctx, p.Profile+"heap?gc=1")
	if err != nil {
		return nil, fmt.Errorf("collect garbage: %w", err)
	}
	page.Close()
	last := len(p.Servers) - 1
	live, err := p.metric(ctx, p.Servers[last].Name, "go_memstats_heap_alloc_bytes")
	all[last] = int64(live)
	return all, err
}

// Watches returns the number of watches that each server counts, or 0 if it does not.
func (p *Peer) Watches(ctx context.Context) ([]float64, error) {
	all := make([]float64, len(p.Servers))
	for i, s := range p.Servers {
		for _, name := range []string{"fanoutd_watchers", "etcd_debugging_mvcc_watcher_total"} {
			n, err := p.metric(ctx, s.Name, name)
			if err != nil {
				return nil, err
			}
			all[i] += n
		}
	}
	return all, nil
}

// Reported returns the number of watches of each server that have reported what they have applied.
func (p *Peer) Reported(ctx context.Context) ([]float64, error) {
	all := make([]float64, len(p.Servers))
	for i, s := range p.Servers {
		const name = "fanoutd_watchers_by_applied_lag"
		watches, err := p.metric(ctx, s.Name, name)
		if err != nil {
			return nil, err
		}
		silent, err := p.metricOf(ctx, s.Name, name, `lag="unreported"`)
		if err != nil {
			return nil, err
		}
		all[i] = watches - silent
	}
	return all, nil
}

// metric returns the sum of a metric of a server over its labels, or 0 if the server does not have it.
func (p *Peer) metric(ctx context.Context, server, name string) (float64, error) {
	return p.metricOf(ctx, server, name, "")
}

// metricOf returns the sum of a metric over the labels that contain a text.
func (p *Peer) metricOf(ctx context.Context, server, name, label string) (sum float64, err error) {
	url, ok := p.Metrics[server]
	if !ok {
		return 0, nil
	}
	page, err := get(ctx, url)
	if err != nil {
		return 0, fmt.Errorf("read the metrics of %s: %w", server, err)
	}
	defer page.Close()
	lines := bufio.NewScanner(page)
	for lines.Scan() {
		labels, ok := strings.CutPrefix(lines.Text(), name)
		if !ok || labels == "" || labels[0] != ' ' && labels[0] != '{' || !strings.Contains(labels, label) {
			continue
		}
		value, err := strconv.ParseFloat(labels[strings.LastIndexByte(labels, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("read metric %s of %s: %w", name, server, err)
		}
		sum += value
	}
	return sum, lines.Err()
}

// ProfileCPU writes a CPU profile of the server that watchers connect to.
func (p *Peer) ProfileCPU(ctx context.Context, duration time.Duration, path string) error {
	if p.Profile == "" {
		return fmt.Errorf("%s has no profiles", p.Servers[len(p.Servers)-1].Name)
	}
	seconds := max(1, int(duration.Seconds()))
	page, err := get(ctx, fmt.Sprintf("%sprofile?seconds=%d", p.Profile, seconds))
	if err != nil {
		return fmt.Errorf("request the profile: %w", err)
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
		return nil, fmt.Errorf("%s: %s", url, response.Status)
	}
	return response.Body, nil
}
