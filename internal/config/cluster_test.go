package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/config"
)

// The problems of a cluster name the key, and say what to do.
func TestClusterIsValidated(t *testing.T) {
	const two = "cluster: {members: {node-1: 127.0.0.1, node-2: 127.0.0.2}"
	const open = "cluster: {members: {node-1: node-1.example.com, node-2: node-2.example.com}"
	const files = ", ca-file: a, cert-file: b, key-file: c}\n"
	for text, want := range map[string]string{
		two + "}\n": "",
		"cluster: {members: {node-1: 'localhost:1', node-2: 'localhost:2'}}\n": "",
		"cluster: {members: {node-1: '[::1]', node-2: '[::1]:1'}}\n":           "",
		open + files:                                                   "",
		open + "}\n":                                                   "cluster.members.node-1: other machines can reach the members: set cluster.ca-file",
		open + ", ca-file: a}\n":                                       "cluster.cert-file: must be set with the other files",
		two + "}\netcd-endpoints: ['a:1']\n":                           "cluster: cannot be set with etcd-endpoints",
		two + "}\nembedded-etcd-listen: 127.0.0.1:1\n":                 "embedded-etcd-listen: cannot be set with cluster",
		two + ", name: node-3}\n":                                      "cluster.name: \"node-3\" is not one of cluster.members",
		two + ", listen: 127.1.1.1}\n":                                 "",
		two + ", listen: node-1}\n":                                    "cluster.listen: invalid address \"node-1\"",
		two + ", listen: 0.0.0.0}\n":                                   "cluster.listen: other machines can reach this server",
		open + ", listen: 0.0.0.0" + files:                             "",
		two + ", peer-port: 0}\n":                                      "cluster.peer-port: must be from 1 to 65535",
		two + ", client-port: 2380}\n":                                 "cluster.members.node-1: its port for members is client-port",
		"cluster: {members: {node-1: 127.0.0.1}}\n":                    "cluster.members: must have at least two",
		"cluster: {members: {node-1: 127.0.0.1, node-2: 127.0.0.1}}\n": "cluster.members.node-2: has the address 127.0.0.1:2380 of node-1",
		"cluster: {members: {node-1: 127.0.0.1, Node 2: 127.0.0.2}}\n": "invalid name \"Node 2\"",
		"cluster: {members: {node-1: 127.0.0.1, node-2: 'a b'}}\n":     "cluster.members.node-2: invalid address",
		"cluster: {members: {node-1: 127.0.0.1, node-2: 'a:0'}}\n":     "cluster.members.node-2: invalid address",
		"cluster: {member: {}}\n":                                      "unknown field \"member\"",
	} {
		_, problems := read(t, text)
		if (problems == "") != (want == "") || !strings.Contains(problems, want) {
			t.Errorf("%s: got %q, want %q", text, problems, want)
		}
	}
}

// A server is the member with the name of its machine or pod.
func TestOwnNameInACluster(t *testing.T) {
	c := config.NewCluster()
	c.Members = map[string]string{"node-1": "a.example.com", "node-2": "b.example.com:1"}
	for machine, want := range map[string]string{
		"node-1": "node-1", "node-2.example.com": "node-2", "a.example.com": "node-1", "b.example.com": "node-2", "node-3": "",
	} {
		if got, err := c.Own(machine); got != want || (err == nil) != (want != "") {
			t.Errorf("%s: got %q, %v, want %q", machine, got, err, want)
		}
	}
	c.Name = "node-2"
	if got, err := c.Own("node-1"); got != "node-2" || err != nil {
		t.Errorf("with a name: got %q, %v", got, err)
	}
	for name, want := range map[string]string{"node-1": "a.example.com 2380", "node-2": "b.example.com 1"} {
		host, port := c.Address(name)
		if got := fmt.Sprint(host, " ", port); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}
