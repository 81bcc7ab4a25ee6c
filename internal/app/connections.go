package app

import (
	"fmt"
	"log/slog"

	"github.com/fanoutd/fanoutd/internal/config"
)

// connectionLimits are the limits of connections that are in effect.
type connectionLimits struct {
	total     int
	perClient int // 0: without limit
	operators int // of total, those that only the listener of operators may use
}

const (
	// othersShare is the part of all connections that one address leaves to others, whatever the
	// configured limits are: 1/othersShare. It matters only if there may be few connections.
	othersShare = 4

	// operatorShare is the part of all connections that is kept for the listener of operators:
	// 1/operatorShare, and at most maxOperatorConnections.
	operatorShare          = 8
	maxOperatorConnections = 16
)

// limitConnections returns how many connections the server may have: the configured numbers,
// or less if the limit of open files does not allow that many. The embedded etcd ends the process
// when it cannot open a file, so reserved descriptors stay free.
func limitConnections(cfg config.Config, openFiles int, log *slog.Logger) (connectionLimits, error) {
	most := openFiles - cfg.ReservedFiles
	if most < 1 {
		return connectionLimits{}, fmt.Errorf("the limit of open files is %d (ulimit -n), but must be more than the %d of reserved-files", openFiles, cfg.ReservedFiles)
	}
	l := connectionLimits{total: most, perClient: cfg.MaxConnectionsPerClient}
	bound := cfg.MaxConnections == 0 || cfg.MaxConnections > most
	if !bound {
		l.total = cfg.MaxConnections
	}
	if l.perClient > 0 {
		l.perClient = min(l.perClient, max(1, l.total-max(1, l.total/othersShare)))
	}
	if cfg.AdminListen != "" {
		l.operators = min(l.total/operatorShare, maxOperatorConnections)
	}
	if bound {
		log.Info("the limit of open files bounds connections", "max_connections", cfg.MaxConnections, "open_files", openFiles,
			"reserved_files", cfg.ReservedFiles, "connections", l.total, "connections_per_client", l.perClient)
	}
	return l, nil
}
