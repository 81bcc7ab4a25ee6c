// Package version identifies the build of a program. It reads what the Go command has
// recorded: the tag or commit, and the toolchain. The build passes nothing in, so two
// builds of one commit are identical.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Info describes a build.
type Info struct {
	Version  string // a tag, or the pseudo-version of a commit; "+dirty" if it was changed; "(devel)" if unknown
	Commit   string // empty if the program was not built in a repository
	Date     string // of the commit, RFC 3339; empty if there is no commit
	Go       string // the version of Go, such as go1.26.8
	Platform string // such as linux/amd64
}

// Get describes the build of this program.
func Get() Info {
	info := Info{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return info
	}
	if build.Main.Version != "" {
		info.Version = build.Main.Version
	}
	for _, s := range build.Settings {
		switch s.Key {
		case "vcs.revision":
			info.Commit = s.Value
		case "vcs.time":
			info.Date = s.Value
		}
	}
	return info
}

// Line returns the version line that a command prints.
func Line(command string) string {
	info := Get()
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", command, info.Version)
	if info.Commit != "" {
		fmt.Fprintf(&b, ", commit %.12s of %s", info.Commit, info.Date)
	}
	fmt.Fprintf(&b, ", %s %s", info.Go, info.Platform)
	return b.String()
}
