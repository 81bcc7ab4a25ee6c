package metrics

import (
	"crypto/x509"

	"github.com/prometheus/client_golang/prometheus"
)

// certificateCollector says from when until when the certificate is good that clients
// are shown.
type certificateCollector struct {
	shown func() *x509.Certificate
	families

	notBefore, notAfter *family
}

func newCertificateCollector(shown func() *x509.Certificate) *certificateCollector {
	c := &certificateCollector{shown: shown}
	c.notBefore = c.gauge("certificate_not_before_timestamp_seconds", "When the certificate begins to be good that clients are shown, in Unix time. Missing in plain text.")
	c.notAfter = c.gauge("certificate_not_after_timestamp_seconds", "When it ends to be good. Missing as above.")
	return c
}

// Describe implements [prometheus.Collector].
func (c *certificateCollector) Describe(to chan<- *prometheus.Desc) { c.describe(to) }

// Collect implements [prometheus.Collector].
func (c *certificateCollector) Collect(to chan<- prometheus.Metric) {
	certificate := c.shown()
	send(to, c.notBefore, certificate.NotBefore.Unix())
	send(to, c.notAfter, certificate.NotAfter.Unix())
}
