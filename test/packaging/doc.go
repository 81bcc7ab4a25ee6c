// Package packaging tests what is released and what deploy/ has: that binaries are the
// same wherever they are built, that their SBOM is complete, and that the files for
// Docker, Compose, systemd and Kubernetes are understood by the parsers of those and
// agree with what fanoutd takes, and that alerts fire when they should. It is a module of its own, because those parsers
// bring much along.
package packaging
