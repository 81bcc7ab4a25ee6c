package metrics

import (
	"maps"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fanoutd/fanoutd/internal/server/registry"
)

// collector collects metrics from state that exists anyway. It describes none in advance, so
// the name and the help of a metric are written once, where its value is read.
type collector func(scrape)

// Describe implements [prometheus.Collector].
func (collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c collector) Collect(to chan<- prometheus.Metric) { c(scrape{to: to}) }

// scrape receives the metrics of one scrape, all with its labels.
type scrape struct {
	to     chan<- prometheus.Metric
	labels prometheus.Labels
}

// with adds a label.
func (s scrape) with(name, value string) scrape {
	labels := prometheus.Labels{name: value}
	maps.Copy(labels, s.labels)
	return scrape{s.to, labels}
}

func (s scrape) describe(name, help string) *prometheus.Desc {
	return prometheus.NewDesc("fanoutd_"+name, help, nil, s.labels)
}

type number interface {
	~int | ~int64 | float64
}

// gauge sends a metric whose value rises and falls.
func gauge[N number](s scrape, name, help string, value N) {
	s.to <- prometheus.MustNewConstMetric(s.describe(name, help), prometheus.GaugeValue, float64(value))
}

// counter sends a metric whose value never decreases while the process lives.
func counter[N number](s scrape, name, help string, value N) {
	s.to <- prometheus.MustNewConstMetric(s.describe(name, help), prometheus.CounterValue, float64(value))
}

// histogram sends a metric with a distribution of values.
func histogram(s scrape, name, help string, d *registry.Distribution) {
	buckets := make(map[float64]uint64, len(d.Bounds))
	total := uint64(0)
	for i, n := range d.Counts {
		total += uint64(n)
		if i < len(d.Bounds) {
			buckets[d.Bounds[i]] = total
		}
	}
	s.to <- prometheus.MustNewConstHistogram(s.describe(name, help), total, d.Sum, buckets)
}

// boolValue returns 1 for true and 0 for false.
func boolValue(b bool) int {
	if b {
		return 1
	}
	return 0
}
