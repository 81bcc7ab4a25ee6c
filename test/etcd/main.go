// Command etcd is the etcd server at exactly the version of go.mod. The tests
// build and start it where they need an etcd outside of fanoutd.
//
// As "etcd restore" it is what "etcdutl snapshot restore" is: it makes the data
// directory of a member from a snapshot.
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
