// Package access says who makes a request and what they may do. It knows neither
// gRPC nor HTTP: the servers show it credentials, and ask.
package access
