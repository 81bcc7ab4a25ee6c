// Command etcd36 is the newest etcd 3.6. Tests make it a member of the cluster of fanoutd, whose etcd is 3.7.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
