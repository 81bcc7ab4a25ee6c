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

// binaries are the programs that are measured.
type binaries struct {
	fanoutd string // path of one that is built already
	source  string // where fanoutd is built from
	dir     string // of what was built
}

func (b *binaries) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&b.fanoutd, "fanoutd", "", "program that is measured; without it, it is built")
	cmd.Flags().StringVar(&b.source, "source", "..", "folder of fanoutd's module, to build it from")
}

// programs builds what is not there yet. Remove removes it.
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
