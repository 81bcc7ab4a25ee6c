// Package version identifies the build of a program. It reads what the Go command has
// recorded: the tag or commit, and the toolchain. Nothing else goes in, so two builds of one
// commit are identical.
//
// The Go command records no commit in a worktree of git, or with -buildvcs=false. For these,
// the Makefile passes the commit to the linker.
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// Info describes a build.
type Info struct {
	Version  string // a tag, or the pseudo-version of a commit; "+dirty" if it was changed; "(devel)" if unknown
	Commit   string // empty if the program was not built in a repository
	Date     string // of the commit, RFC 3339; empty if there is no commit
	Go       string // the version of Go, such as go1.26.8
	Platform string // such as linux/amd64
}

// linked is set by the linker: the commit, its time in RFC 3339 and UTC, and "dirty" if the files
// were changed, separated by commas. Empty: the Makefile was not used.
var linked string

// Get describes the build of this program.
func Get() Info {
	info := Info{Version: devel, Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if build, ok := debug.ReadBuildInfo(); ok {
		info.Version = cmp.Or(build.Main.Version, devel)
		for _, s := range build.Settings {
			switch s.Key {
			case "vcs.revision":
				info.Commit = s.Value
			case "vcs.time":
				info.Date = s.Value
			}
		}
	}
	if info.Commit == "" {
		info.link(linked)
	}
	return info
}

const devel = "(devel)"

// link adds the commit that the linker was given. The Go command would have made the same
// version, unless the commit has a tag.
func (i *Info) link(from string) {
	commit, rest, _ := strings.Cut(from, ",")
	date, dirty, _ := strings.Cut(rest, ",")
	at, err := time.Parse(time.RFC3339, date)
	if len(commit) < shortCommit || err != nil {
		return
	}
	i.Commit, i.Date = commit, date
	i.Version = "v0.0.0-" + at.UTC().Format("20060102150405") + "-" + commit[:shortCommit]
	if dirty != "" {
		i.Version += "+dirty"
	}
}

// shortCommit is the length of a commit in a pseudo-version.
const shortCommit = 12

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
