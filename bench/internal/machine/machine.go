// Package machine describes the machine of a benchmark.
package machine

import (
	"bufio"
	"debug/buildinfo"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"
)

// Machine has everything that the figures depend on.
type Machine struct {
	CPU      string            `json:"cpu"`
	Cores    int               `json:"cores"`
	Memory   int64             `json:"memory"` // bytes
	Kernel   string            `json:"kernel"`
	Go       string            `json:"go"`
	Versions map[string]string `json:"versions"` // by module
}

// parts are the modules whose versions matter.
var parts = []string{
	"go.etcd.io/etcd/server/v3",
	"github.com/nats-io/nats-server/v2",
	"github.com/nats-io/nats.go",
	"google.golang.org/grpc",
}

// This returns the machine on which the program runs. fanoutd is the path of the measured
// program.
func This(fanoutd string) Machine {
	m := Machine{Cores: runtime.NumCPU(), CPU: "unknown", Go: runtime.Version(), Versions: map[string]string{}}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		m.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		m.Memory = int64(info.Totalram) * int64(info.Unit)
	}
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if key, value, _ := strings.Cut(lines.Text(), ":"); strings.TrimSpace(key) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	if build, ok := debug.ReadBuildInfo(); ok {
		for _, module := range build.Deps {
			for _, part := range parts {
				if module.Path == part {
					m.Versions[part] = module.Version
				}
			}
		}
	}
	if commit := commitOf(fanoutd); commit != "" {
		m.Versions["fanoutd"] = commit
	}
	return m
}

// commitOf returns the commit that a program was built from, if it is recorded.
func commitOf(path string) string {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return ""
	}
	var commit, changed string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = " with changes"
		}
	}
	return commit + changed
}
