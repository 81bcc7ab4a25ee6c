// Package disk asks the operating system for the space of a disk, as far as fanoutd knows the system.
package disk
