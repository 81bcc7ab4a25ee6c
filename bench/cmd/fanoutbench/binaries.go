package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/bench/internal/peer"
)

// binaries selects the fanoutd to measure.
type binaries struct {
	fanoutd string // path of a program; "": build one
	source  string // directory of the module to build from
	dir     string // temporary directory of the built program
}

func (b *binaries) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&b.fanoutd, "fanoutd", "", "program to measure; default: build it")
	cmd.Flags().StringVar(&b.source, "source", "..", "directory of the fanoutd module to build")
}

// programs returns the programs to measure. It builds fanoutd unless there is one; remove
// removes the build.
func (b *binaries) programs(ctx context.Context) (peer.Programs, error) {
	self, err := program()
	if err != nil || b.fanoutd != "" {
		return peer.Programs{Self: self, Fanoutd: b.fanoutd}, err
	}
	if b.dir, err = os.MkdirTemp("", "fanoutbench-"); err != nil {
		return peer.Programs{}, fmt.Errorf("make a directory for fanoutd: %w", err)
	}
	path := filepath.Join(b.dir, "fanoutd")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", path, "./cmd/fanoutd")
	build.Dir = b.source
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.remove()
		return peer.Programs{}, fmt.Errorf("build fanoutd: %w\n%s", err, out)
	}
	return peer.Programs{Self: self, Fanoutd: path}, nil
}

func (b *binaries) remove() {
	if b.dir != "" {
		os.RemoveAll(b.dir)
	}
}
