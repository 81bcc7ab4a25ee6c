package app

import (
	"fmt"
	"log/slog"
)

// limitConnections returns how many connections the server may have: the configured number,
// or less if the limit of open files does not allow that many. Zero means no limit. The
// embedded etcd ends the process when it cannot open a file, so reserved descriptors stay
// free.
func limitConnections(configured, openFiles, reserved int, log *slog.Logger) (int, error) {
	most := openFiles - reserved
	if most < 1 {
		return 0, fmt.Errorf("the limit of open files is %d (ulimit -n), but must be more than the %d of reserved-files", openFiles, reserved)
	}
	if configured > 0 && configured <= most {
		return configured, nil
	}
	log.Info("the limit of open files bounds connections", "max_connections", configured, "open_files", openFiles,
		"reserved_files", reserved, "connections", most)
	return most, nil
}
