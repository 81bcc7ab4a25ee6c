// Command etcd is etcd in exactly the version of go.mod. Tests build and start it when they need
// an external etcd.
//
// "etcd etcdctl" and "etcd etcdutl" are the other programs of etcd.
package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/etcdctl/v3/ctlv3"
	"go.etcd.io/etcd/etcdutl/v3/etcdutl"
	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	name := ""
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	switch name {
	case "etcdctl":
		os.Args = os.Args[1:]
		ctlv3.MustStart()
	case "etcdutl":
		os.Args = os.Args[1:]
		if err := runEtcdutl(); err != nil {
			fmt.Fprintln(os.Stderr, "Error:", err)
			os.Exit(1)
		}
	default:
		etcdmain.Main(os.Args)
	}
}

// runEtcdutl does the same as etcdutl, whose main package cannot be imported, with the commands
// for snapshots.
func runEtcdutl() error {
	root := &cobra.Command{Use: "etcdutl", SilenceErrors: true}
	root.PersistentFlags().DurationVar(&etcdutl.FlockTimeout, "timeout", 10*time.Second, "to lock the database")
	root.PersistentFlags().StringVarP(&etcdutl.OutputFormat, "write-out", "w", "simple", "output format")
	root.AddCommand(etcdutl.NewSnapshotCommand())
	return root.Execute()
}
