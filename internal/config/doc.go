// Package config is everything that can be configured, its defaults and its
// file. A setting has one name: as a key of the file, as a flag and, in capitals
// behind FANOUTD_, as a variable. Flags and variables are the command's; this
// package reads neither.
package config
