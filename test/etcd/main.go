// Command etcd is the etcd server at exactly the version of go.mod. The tests
// build and start it where they need an etcd outside of fanoutd.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
