// Package packaging tests the released files and deploy/: releases are reproducible and their
// SBOMs are complete; the packages work in a clean Debian; the files for Docker, Compose, systemd
// and Kubernetes pass the parsers of those programs and agree with fanoutd's settings; alerts
// fire when they should. It is a separate module, because these parsers have many dependencies.
package packaging
