// Package cluster tests servers that run etcd together, in one process, at loopback addresses of their own:
// how they found a cluster, join it, grow, stop, and what they refuse. Package failures kills them as processes.
package cluster
