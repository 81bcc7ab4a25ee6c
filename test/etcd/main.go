// Command etcd is the etcd server in exactly the version of go.mod. Tests build and start it
// when they need an external etcd.
//
// "etcd restore" does the same as "etcdutl snapshot restore": it creates the data directory of
// a member from a snapshot.
package main

import (
	"fmt"
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "restore" {
		if err := restore(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, "restore:", err)
			os.Exit(1)
		}
		return
	}
	etcdmain.Main(os.Args)
}
