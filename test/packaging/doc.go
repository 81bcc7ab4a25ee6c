// Package packaging tests the released files and deploy/: binaries are reproducible and
// their SBOM is complete; the files for Docker, Compose, systemd and Kubernetes pass the
// parsers of those programs and agree with fanoutd's settings; alerts fire when they should.
// It is a separate module, because these parsers have many dependencies.
package packaging
