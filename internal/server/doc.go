// Package server serves the protocol fanout.v1 over gRPC. It composes the packages below it,
// and has the services: FanoutService (Get and List; Watch is in package watch), StoreService,
// AdminService and health.
//
// A request passes through the packages in this order:
//
//	transport   its connection: admission, TLS, keepalive; frames follows its HTTP/2 frames
//	rpc         interceptors: authentication, audit, limits, statuses
//	quota       limits, and who uses how much of them
//	request     the generated message becomes a typed, validated value
//	backend     what serves the resource: a cacher and a dispatcher, or etcd
//	registry    all watches, and what watch and subscribe have in common
//	watch       the life of one watch; subscribe: of many on one stream
//	grpcmsg     encoded messages, and the codec that passes them through
//	apierr      errors become statuses
//
// Handlers parse, authorize and act. None of them marshals an object: the responses consist
// of bytes that package wire has encoded once.
//
// [Server.Serve] accepts connections. [Server.Local] is a connection within the process, for
// the HTTP gateway. [Server.Drain] and then [Server.Stop] end the server.
package server
