// Package version says which build of the program this is. It knows what the Go
// command has recorded: the tag or commit it was built from, and with what. Nothing is
// passed in when the program is built, so two builds of a commit are the same.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
)

// Info is what is known of a build.
type Info struct {
	Version  string // a tag, or a pseudo-version of a commit; "+dirty" if it was changed; "(devel)" if unknown
	Commit   string // empty if it was not built in a repository
	Date     string // of the commit, RFC 3339; empty as above
	Go       string // the version of Go, such as go1.26.8
	Platform string // such as linux/amd64
}

// Get returns what is known of this program.
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

// Line returns what the command with the name prints about itself.
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
