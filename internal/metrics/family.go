package metrics

import "github.com/prometheus/client_golang/prometheus"

// family is a metric without its values.
type family struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

// families are all that collectors make of what they read.
type families []*family

// gauge makes a family of values that rise and fall.
func (all *families) gauge(name, help string, labels ...string) *family {
	return all.add(name, help, prometheus.GaugeValue, labels)
}

// counter makes a family of values that never fall while the process lives.
func (all *families) counter(name, help string, labels ...string) *family {
	return all.add(name, help, prometheus.CounterValue, labels)
}

// histogram makes a family of distributions.
func (all *families) histogram(name, help string, labels ...string) *family {
	return all.add(name, help, prometheus.UntypedValue, labels)
}

func (all *families) add(name, help string, kind prometheus.ValueType, labels []string) *family {
	f := &family{prometheus.NewDesc("fanoutd_"+name, help, labels, nil), kind}
	*all = append(*all, f)
	return f
}

// send sends a value to whoever collects.
func send[N int | int64 | float64](to chan<- prometheus.Metric, f *family, value N, labels ...string) {
	to <- prometheus.MustNewConstMetric(f.desc, f.kind, float64(value), labels...)
}

// one is 1 for yes and 0 for no.
func one(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func (all *families) describe(to chan<- *prometheus.Desc) {
	for _, f := range *all {
		to <- f.desc
	}
}
