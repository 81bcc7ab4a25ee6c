// Package importspeed compares an import by fanoutctl with writing the same objects
// with etcd's own client.
package importspeed
