package client

// ErrorOf returns what a request of another service through [Client.Conn] has failed
// with as an [*Error]; nil of nil.
func ErrorOf(err error) error { return errorOf(err) }
